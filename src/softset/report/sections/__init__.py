"""The sections of the report: a module and a template each; their order is in ``report/writer.py``.

A section has an ``ID`` (its anchor, and the name of its template), a ``TITLE`` (with the words of
``Page.words`` in braces) and a ``content``: the values of its template, every number already
formatted, or ``None`` if there is nothing to show. Sections of one ``GROUP`` are in one box: the
slider stays in sight while they are read.
"""
