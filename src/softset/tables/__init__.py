"""Users' rows: files, strict CSV, columns, the encoder, labels, rows by content, splits."""
