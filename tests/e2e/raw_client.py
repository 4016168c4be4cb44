"""A gRPC client of the master that has nothing of ours but the .proto files: it can send what ours would not."""
import importlib
import os
import subprocess
import sys
import tempfile

import grpc
from google.protobuf import any_pb2
from google.protobuf import message as protobuf_message

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def load_protos(folder):
    """Python classes of proto/tandem/v1 and of gRPC's error details, made in `folder`."""
    names = sorted(name.removesuffix(".proto") for name in os.listdir(os.path.join(ROOT, "proto", "tandem", "v1")))
    protos = [f"tandem/v1/{name}.proto" for name in names]
    subprocess.run(["protoc", "-I", os.path.join(ROOT, "proto"), "--python_out", folder, *protos], check=True)
    sys.path.insert(0, folder)
    return {name: importlib.import_module(f"tandem.v1.{name}_pb2") for name in names}


class Refused(Exception):
    """An RPC's error: code "INVALID_ARGUMENT", message, reason and field."""

    def __init__(self, error):
        self.code, self.message = error.code().name, error.details()
        self.reason, self.field = "", ""
        trailing = dict((error.trailing_metadata() or ()))
        for kind, value in read_details(trailing.get("grpc-status-details-bin", b"")):
            if kind.endswith("google.rpc.ErrorInfo"):
                self.reason = fields(value).get(1, [b""])[0].decode()
            if kind.endswith("google.rpc.BadRequest"):
                violation = fields(fields(value).get(1, [b""])[0])
                self.field = violation.get(1, [b""])[0].decode()
        super().__init__(f"{self.code} ({self.reason}) {self.field}: {self.message}")


def fields(data):
    """The length-delimited fields of a message by number; others are passed over."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            varint()
        elif key & 7 == 2:
            size = varint()
            found.setdefault(key >> 3, []).append(data[at:at + size])
            at += size
        else:
            at += {1: 8, 5: 4}[key & 7]
    return found


def read_details(status):
    for packed in fields(status).get(3, []):
        detail = any_pb2.Any.FromString(packed)
        yield detail.type_url, detail.value


class RawClient:
    def __init__(self, address, owner="tester"):
        self.channel = grpc.insecure_channel(address, options=[("grpc.max_send_message_length", 64 << 20)])
        self.metadata = (("tandem-owner", owner),)

    def close(self):
        self.channel.close()

    @staticmethod
    def _bytes(message):
        return message.SerializeToString() if isinstance(message, protobuf_message.Message) else message

    def call(self, method, request, response_type=None, timeout=30, metadata=None):
        """A unary call; `request` is a message or its bytes. Raises Refused."""
        rpc = self.channel.unary_unary("/tandem.v1." + method, request_serializer=self._bytes)
        try:
            answer = rpc(request, timeout=timeout, metadata=self.metadata if metadata is None else metadata)
        except grpc.RpcError as error:
            raise Refused(error) from None
        return response_type.FromString(answer) if response_type else answer

    def stream_up(self, method, requests, response_type=None, timeout=30):
        rpc = self.channel.stream_unary("/tandem.v1." + method, request_serializer=self._bytes)
        try:
            answer = rpc(iter(requests), timeout=timeout, metadata=self.metadata)
        except grpc.RpcError as error:
            raise Refused(error) from None
        return response_type.FromString(answer) if response_type else answer

    def stream_down(self, method, request, timeout=30):
        rpc = self.channel.unary_stream("/tandem.v1." + method, request_serializer=self._bytes)
        try:
            return list(rpc(request, timeout=timeout, metadata=self.metadata))
        except grpc.RpcError as error:
            raise Refused(error) from None

    def stream_both(self, method, requests, timeout=30):
        """`method` with its package."""
        rpc = self.channel.stream_stream("/" + method, request_serializer=self._bytes)
        try:
            return list(rpc(iter(requests), timeout=timeout, metadata=self.metadata))
        except grpc.RpcError as error:
            raise Refused(error) from None


def temporary_protos(case):
    """load_protos() in a folder that goes with the test case."""
    folder = tempfile.TemporaryDirectory(prefix="tandem-protos-")
    case.addClassCleanup(folder.cleanup)
    return load_protos(folder.name)
