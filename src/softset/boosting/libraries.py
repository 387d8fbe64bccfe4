"""The former place of the libraries."""

from softset.boosting.base import LIBRARIES
from softset.boosting.lightgbm import LightGBM
from softset.boosting.xgboost import XGBoost

__all__ = ["LIBRARIES", "LightGBM", "XGBoost"]
