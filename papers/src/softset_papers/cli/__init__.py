"""`softset paper` and `softset datasets`."""
