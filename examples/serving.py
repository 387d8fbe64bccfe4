"""How do I serve a saved model over HTTP?

With FastAPI, which softset does not install: ``MODEL=model.softset uvicorn serving:server``.
"""

import os
from typing import Any

from fastapi import FastAPI, HTTPException

import softset as ss

MOST_BYTES = 1_000_000  # of a request: parsing a long one would block the others

model = ss.load_model(os.environ["MODEL"])
app = FastAPI()


@app.post("/predict")
def predict(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows ``{column: value}`` -> decisions, and probabilities in the order of ``classes``."""
    try:
        p, decided = model.predict_both(rows)
    except ValueError as error:  # a column is missing: the caller's fault
        raise HTTPException(422, str(error)) from None
    return {"classes": model.classes_.tolist(), "p": p.tolist(), "decision": decided.tolist()}


async def server(scope: Any, receive: Any, send: Any) -> None:
    """``app`` behind a limit: a request that is too long, or of unknown length, is not read."""
    headers = dict(scope.get("headers", ()))
    length = headers.get(b"content-length", b"")
    too_long = length.isdigit() and int(length) > MOST_BYTES
    if too_long or b"transfer-encoding" in headers:
        await send({"type": "http.response.start", "status": 413 if too_long else 411})
        await send({"type": "http.response.body", "body": b"at most 1 MB, of known length"})
        return
    await app(scope, receive, send)
