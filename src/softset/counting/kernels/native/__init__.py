"""The kernels in C, called through ctypes: docs/kernels.md. Absent without harm."""
