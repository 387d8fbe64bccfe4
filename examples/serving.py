"""How do I serve a saved model over HTTP?

With FastAPI, which softset does not install: ``MODEL=model.softset uvicorn serving:app``.
"""

import os
from typing import Any

from fastapi import FastAPI, HTTPException

import softset as ss

model = ss.load_model(os.environ["MODEL"])
app = FastAPI()


@app.post("/predict")
def predict(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows ``{column: value}`` -> decisions, and probabilities in the order of ``classes``."""
    try:
        p, decided = model.predict_both(rows)
    except ValueError as error:  # a column is missing, a cell cannot be read: the caller's fault
        raise HTTPException(422, str(error)) from None
    return {"classes": model.classes_.tolist(), "p": p.tolist(), "decision": decided.tolist()}
