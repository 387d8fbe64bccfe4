"""Users' rows: files (text, Parquet, Arrow, Excel), kinds of columns, the encoder, labels, rows by
content, splits."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
