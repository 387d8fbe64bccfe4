"""Results as tables: cells, Markdown, HTML and figures."""
