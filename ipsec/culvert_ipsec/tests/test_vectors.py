"""The vectors that every language reads are what an independent implementation makes."""

import json

from cryptography.hazmat.primitives.keywrap import aes_key_wrap_with_padding

from .esp_vectors import FILE, vectors


def test_the_shared_file_is_current() -> None:
    assert json.loads(FILE.read_text()) == vectors()


def test_the_independent_key_wrap_agrees_with_rfc_5649() -> None:
    kek = bytes.fromhex("5840df6e29b02af1ab493b705bf16ea1ae8338f4dcc176a8")
    key = bytes.fromhex("c37b7e6492584340bed12207808941155068f738")
    wrapped = "138bdeaa9b8fa7fc61f97742e72248ee5ae6ae5360d1ae6a5f54f373fa543b6a"
    assert aes_key_wrap_with_padding(kek, key).hex() == wrapped
