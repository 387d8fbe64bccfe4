"""Bytes on disk, whole or not at all: atomic writes and locks, one container for plain data and
tensors, arrays and parameters as plain data."""
