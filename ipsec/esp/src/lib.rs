//! ESP in tunnel mode, sans-IO: bytes in, bytes out.
