"""Users' rows: files (text, Parquet, Arrow, Excel), kinds of columns, the encoder, labels, rows by
content, splits."""
