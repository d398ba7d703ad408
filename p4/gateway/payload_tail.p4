// The end of the payload: v1model's truncate() counts from the first header, and takes effect after the checksums are made.

extern PayloadTail {
    PayloadTail();

    // Keeps the first `len` bytes of the payload, at once.
    void cut(in bit<16> len);
}
