"""Write a FileDescriptorSet of P4Runtime and all that it imports to standard output.

The descriptors are read out of the installed packages' generated modules without running them: the package `p4runtime`
ships code of an older protoc than the protobuf runtime beside it accepts.
"""

import ast
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

try:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
except ModuleNotFoundError:
    sys.exit("no Python module google.protobuf: install the package p4runtime")

ROOT = "p4/v1/p4runtime.proto"


def find_serialized(source: str) -> Iterator[bytes]:
    """Find the bytes literals that a generated module registers as its file's descriptor."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            values = [keyword.value for keyword in node.keywords if keyword.arg == "serialized_pb"]
            if name == "AddSerializedFile":
                values += node.args
            for value in values:
                if isinstance(value, ast.Constant) and isinstance(value.value, bytes):
                    yield value.value


def descriptor(proto: str) -> FileDescriptorProto:
    module = proto.removesuffix(".proto").replace("/", ".") + "_pb2"
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        sys.exit(f"no Python module {module} ({proto}): install the package p4runtime")
    for serialized in find_serialized(Path(spec.origin).read_text(encoding="utf-8")):
        found = FileDescriptorProto.FromString(serialized)
        if found.name == proto:
            return found
    sys.exit(f"{spec.origin} holds no descriptor of {proto}")


def with_imports(proto: str, seen: set[str]) -> Iterator[FileDescriptorProto]:
    """`proto` after everything that it imports, each once."""
    if proto not in seen:
        seen.add(proto)
        found = descriptor(proto)
        for imported in found.dependency:
            yield from with_imports(imported, seen)
        yield found


sys.stdout.buffer.write(FileDescriptorSet(file=with_imports(ROOT, set())).SerializeToString())
