"""Other libraries' conventions, one file for each; the libraries are yours to install."""
