"""The metric as an objective of boosting: the objective, and one interface with two libraries
behind it. The trees that they grow are kept, saved, read and scored here (``trees``)."""

from softset.boosting.base import Library
from softset.boosting.lightgbm import LightGBM
from softset.boosting.xgboost import XGBoost

# By name; the packages themselves are imported when one of them is used.
LIBRARIES: dict[str, type[Library]] = {kind.name: kind for kind in (LightGBM, XGBoost)}
