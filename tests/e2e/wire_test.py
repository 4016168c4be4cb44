#!/usr/bin/env python3
"""What a client that is not ours may send: each malformed request has its error and field, and none hurts the master."""
import hashlib
import random
import socket

import grpc
from google.protobuf import descriptor_pb2

from cluster_case import ClusterCase, main
from raw_client import RawClient, Refused, fields, temporary_protos


# What gRPC itself says of bytes that are no message, which differs with its version.
NO_MESSAGE = ("INTERNAL", "INVALID_ARGUMENT", "UNIMPLEMENTED")


def varint(number):
    out = b""
    while number > 0x7f:
        out += bytes([number & 0x7f | 0x80])
        number >>= 7
    return out + bytes([number])


def delimited(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


class WireTest(ClusterCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        protos = temporary_protos(cls)
        cls.types, cls.jobs, cls.data = protos["types"], protos["jobs"], protos["data"]
        cls.client = RawClient(cls.cluster.address)
        cls.addClassCleanup(cls.client.close)

    def tearDown(self):
        self.assertIsNone(self.cluster.master.poll(), "the master lives")
        job = self.submit(self.spec("noop", n=3))  # and works
        self.assertEqual(job.task_count, 3)

    def spec(self, kernel, **axes):
        spec = self.jobs.JobSpec(kernel=kernel)
        for name, extent in axes.items():
            spec.axis_extents[name] = extent
        return spec

    def saxpy(self, **changes):
        spec = self.jobs.JobSpec(kernel="saxpy")
        for name in "xy":
            operand = spec.operands.add(name=name)
            operand.tensor.dtype = self.types.F32
            operand.tensor.shape.append(2)
            operand.locator.inline.data = b"\0" * 8
        spec.scalars.add(name="scale", d=1)
        for name, value in changes.items():
            setattr(spec, name, value)
        return spec

    def submit(self, spec, request_id=None):
        request = self.jobs.SubmitJobRequest(spec=spec, request_id=request_id or f"{random.getrandbits(128):032x}")
        return self.client.call("Jobs/SubmitJob", request, self.jobs.Job)

    def expect(self, code, reason, field, call, *args):
        with self.assertRaises(Refused) as caught:
            call(*args)
        found = caught.exception
        self.assertEqual((found.code, found.reason, found.field), (code, reason, field), found)
        self.assertNotEqual(found.message, "")

    def expect_spec(self, reason, field, spec):
        for method in ("Jobs/SubmitJob", "Jobs/PlanJob"):
            request = self.jobs.SubmitJobRequest(spec=spec, request_id=f"{random.getrandbits(128):032x}")
            self.expect("INVALID_ARGUMENT", reason, field, self.client.call, method, request)

    def test_the_well_formed_one_is_accepted(self):
        self.assertEqual(self.submit(self.saxpy()).task_count, 2)

    def test_tensors(self):
        for field, reason, change in (
                ("spec.operands.x.tensor.dtype", "BAD_SPEC", lambda t: setattr(t, "dtype", 0)),
                ("spec.operands.x.tensor.dtype", "BAD_SPEC", lambda t: setattr(t, "dtype", 77)),
                ("spec.operands.x.tensor.shape", "BAD_SPEC", lambda t: t.shape.extend([1] * 100)),
                ("spec.operands.x.tensor.shape[0]", "TOO_LARGE", lambda t: t.shape.__setitem__(0, 2 ** 64 - 1)),
                ("spec.operands.x", "SHAPE_MISMATCH", lambda t: t.shape.__setitem__(0, 3)),
                ("spec.operands.x", "TOO_LARGE", lambda t: t.shape.extend([2 ** 62, 2 ** 62])),
                ("spec.operands.x", "DTYPE_MISMATCH", lambda t: setattr(t, "dtype", self.types.F64)),
                ("spec.operands.x", "LIMIT_EXCEEDED", lambda t: t.shape.extend([1] * 20)),
                ("spec.operands.x", "DTYPE_MISMATCH", lambda t: setattr(t, "dtype", self.types.BYTES))):
            spec = self.saxpy()
            change(spec.operands[0].tensor)
            self.expect_spec(reason, field, spec)

    def test_locators(self):
        blob = b"\1" * 32
        cases = [
            ("locator.where", lambda l: l.Clear()),
            ("locator.blob.sha256", lambda l: setattr(l.blob, "sha256", b"short")),
            ("locator.blob.sha256", lambda l: setattr(l.blob, "sha256", b"\0" * 32)),
            ("locator.path.path", lambda l: setattr(l.path, "path", "relative")),
            ("locator.path.size", lambda l: l.path.MergeFrom(self.types.PathRef(path="/x", size=2 ** 64 - 1, data_offset=8))),
            ("", lambda l: l.path.MergeFrom(self.types.PathRef(path="/x", size=8, file_size=8, slice_bytes=4))),
            ("", lambda l: l.path.MergeFrom(self.types.PathRef(path="/x", size=8, file_size=8))),
            ("locator.generator.kind", lambda l: setattr(l.generator, "kind", 9)),
            ("locator.generator.low", lambda l: setattr(l.generator, "kind", 3)),
            ("locator.generator.low", lambda l: l.generator.MergeFrom(
                self.types.Generator(kind=3, low=self.types.Number(d=float("nan"))))),
            ("locator.job_output.job", lambda l: setattr(l.job_output, "output", "z")),
            ("locator.parts", lambda l: l.parts.parts.add().inline.SetInParent()),
            ("locator.packed", lambda l: l.packed.SetInParent()),
        ]
        for field, change in cases:
            spec = self.saxpy()
            change(spec.operands[0].locator)
            with self.subTest(field=field, locator=str(spec.operands[0].locator)):
                self.expect_spec("BAD_LOCATOR", "spec.operands.x" + (field and "." + field), spec)
        missing = self.saxpy()
        missing.operands[0].locator.blob.MergeFrom(self.types.BlobRef(sha256=blob, size=8))
        self.expect("NOT_FOUND", "BLOB_NOT_FOUND", "spec.operands.x.locator", self.submit, missing)
        held = self.saxpy()
        held.operands[0].locator.held.region.MergeFrom(self.types.Region(segment=1, length=8))
        self.expect("INVALID_ARGUMENT", "BAD_LOCATOR", "spec.operands.x.locator", self.submit, held)

    def test_names_counts_and_policy(self):
        def twice(spec):
            spec.operands.add().CopyFrom(spec.operands[0])
        cases = [
            ("BAD_SPEC", "operands[0]", lambda s: setattr(s.operands[0], "name", "")),
            ("BAD_SPEC", "operands.x", twice),
            ("BAD_SPEC", "operands", lambda s: [twice(s) for _ in range(5000)]),
            ("BAD_SPEC", "scalars", lambda s: [s.scalars.add(name=f"s{i}", d=1) for i in range(5000)]),
            ("BAD_SPEC", "scalars.scale", lambda s: s.scalars.add(name="scale", d=1)),
            ("BAD_SPEC", "scalars.t.value", lambda s: s.scalars.add(name="t")),
            ("PROTOCOL_ERROR", "operands[0]", lambda s: setattr(s.operands[0], "name", "x" * 5000)),
            ("BAD_SPEC", "name", lambda s: setattr(s, "name", "a\0b")),
            ("BAD_SPEC", "labels", lambda s: s.labels.__setitem__("\x1b[31m", "red")),
            ("LIMIT_EXCEEDED", "labels", lambda s: [s.labels.__setitem__(f"k{i}", "v") for i in range(100)]),
            ("BAD_SPEC", "labels", lambda s: [s.labels.__setitem__(f"k{i}", "v") for i in range(5000)]),
            ("LIMIT_EXCEEDED", "name", lambda s: setattr(s, "name", "n" * 300)),
            ("BAD_SPEC", "device", lambda s: setattr(s, "device", 55)),
            ("BAD_SPEC", "time_limit", lambda s: setattr(s.time_limit, "seconds", -5)),
            ("BAD_SPEC", "time_limit", lambda s: setattr(s.time_limit, "nanos", 2_000_000_000)),
            ("LIMIT_EXCEEDED", "retries", lambda s: setattr(s, "retries", 2 ** 32 - 1)),
            ("LIMIT_EXCEEDED", "crash_limit", lambda s: setattr(s, "crash_limit", 2 ** 32 - 1)),
            ("BAD_SPEC", "after", lambda s: s.after.append(0)),
            ("BAD_SPEC", "axis_extents.n", lambda s: s.axis_extents.__setitem__("n", 2 ** 63)),
            ("UNKNOWN_AXIS", "axis_extents.q", lambda s: s.axis_extents.__setitem__("q", 3)),
            ("UNKNOWN_AXIS", "split_axis", lambda s: setattr(s, "split_axis", "q")),
            ("UNKNOWN_OPERAND", "operands.q", lambda s: s.operands.add(name="q").CopyFrom(self.renamed(s, "q"))),
            ("SCALAR_OUT_OF_RANGE", "scalars.scale", lambda s: setattr(s.scalars[0], "d", 1e300)),
            ("BAD_ARGUMENT", "kernel", lambda s: setattr(s, "kernel", "")),
        ]
        for reason, field, change in cases:
            spec = self.saxpy()
            change(spec)
            with self.subTest(field=field, reason=reason):
                self.expect_spec(reason, "spec." + field, spec)

    def renamed(self, spec, name):
        operand = self.types.Operand()
        operand.CopyFrom(spec.operands[0])
        operand.name = name
        return operand

    def test_integers_that_are_no_integers(self):
        spec = self.jobs.JobSpec(kernel="kmer_count")
        operand = spec.operands.add(name="base")
        operand.tensor.dtype = self.types.U8
        operand.tensor.shape.append(4)
        operand.locator.inline.data = b"ACGT"
        scalar = spec.scalars.add(name="k")
        for value in (float("nan"), float("inf"), 2.5, -1.0, 1e30, 16.0):
            scalar.d = value
            self.expect_spec("SCALAR_OUT_OF_RANGE", "spec.scalars.k", spec)

    def test_what_is_no_message(self):
        for content in (b"\xff" * 50, delimited(1, b"\x0a\xff\xff\xff\xff\x0f"), delimited(1, delimited(3, b"\xff\xfe")),
                        delimited(1, delimited(2, b"\xc3")), b"\x0b" * 100):
            with self.assertRaises(Refused) as caught:
                self.client.call("Jobs/SubmitJob", content)
            self.assertIn(caught.exception.code, NO_MESSAGE)

    def test_deep_nesting_ends_at_the_parsers_limit(self):
        locator = b""
        for _ in range(20_000):
            locator = delimited(6, delimited(1, locator))  # Locator.parts.parts
        operand = delimited(1, b"x") + delimited(3, locator)
        with self.assertRaises(Refused) as caught:
            self.client.call("Jobs/SubmitJob", delimited(1, delimited(3, b"noop") + delimited(5, operand)))
        self.assertIn(caught.exception.code, NO_MESSAGE)

    def test_a_message_over_its_limit(self):
        spec = self.saxpy()
        spec.operands[0].locator.inline.data = b"\0" * (3_990 << 10)
        with self.assertRaises(Refused) as caught:
            self.submit(spec)
        self.assertEqual(caught.exception.reason, "TOO_LARGE")
        spec.operands[0].locator.inline.data = b"\0" * (6 << 20)
        with self.assertRaises(Refused) as caught:
            self.submit(spec)
        self.assertEqual(caught.exception.code, "RESOURCE_EXHAUSTED")

    def test_who_calls_must_be_said_once_and_well(self):
        request = self.jobs.GetJobRequest(id=1)
        for metadata in ((), (("tandem-owner", "a"), ("tandem-owner", "b")), (("tandem-owner", "../etc"),),
                         (("tandem-owner", "x" * 1000),), (("tandem-owner", ""),)):
            with self.assertRaises(Refused) as caught:
                self.client.call("Jobs/GetJob", request, metadata=metadata)
            self.assertEqual((caught.exception.code, caught.exception.reason), ("UNAUTHENTICATED", "NOT_OWNER"))

    def test_request_ids_and_pages(self):
        spec = self.spec("noop", n=1)
        for request_id, reason in (("", "BAD_SPEC"), ("x" * 5000, "LIMIT_EXCEEDED"), ("a\nb\x01", "BAD_SPEC")):
            request = self.jobs.SubmitJobRequest(spec=spec, request_id=request_id)
            self.expect("INVALID_ARGUMENT", reason, "request_id", self.client.call, "Jobs/SubmitJob", request)
        first = self.submit(spec, "the-same")
        self.assertEqual(self.submit(spec, "the-same").id, first.id)
        self.expect("ALREADY_EXISTS", "REQUEST_ID_REUSED", "", self.submit, self.spec("noop", n=2), "the-same")
        for request, reason, field in (
                (self.jobs.ListJobsRequest(page_token="no token"), "BAD_PAGE_TOKEN", "page_token"),
                (self.jobs.ListJobsRequest(page_size=2 ** 32 - 1), "LIMIT_EXCEEDED", "page_size"),
                (self.jobs.ListJobsRequest(states=[99]), "BAD_ARGUMENT", "states")):
            self.expect("INVALID_ARGUMENT", reason, field, self.client.call, "Jobs/ListJobs", request)
        for job, reasons in ((0, ("BAD_ARGUMENT", "JOB_NOT_FOUND")), (2 ** 64 - 1, ("JOB_NOT_FOUND",))):
            for method, request in (("GetJob", self.jobs.GetJobRequest(id=job)), ("CancelJob", self.jobs.CancelJobRequest(id=job)),
                                    ("ListFailures", self.jobs.ListFailuresRequest(id=job))):
                with self.assertRaises(Refused) as caught:
                    self.client.call("Jobs/" + method, request)
                self.assertIn(caught.exception.reason, reasons)

    def test_reading_outputs_out_of_bounds(self):
        job = self.submit(self.spec("noop", n=10))
        for first, count in ((11, 0), (0, 11), (5, 2 ** 64 - 1), (2 ** 64 - 1, 2)):
            request = self.data.ReadOutputRequest(job=job.id, output="value", first_task=first, task_count=count)
            with self.assertRaises(Refused) as caught:
                self.client.stream_down("Data/ReadOutput", request)
            self.assertEqual(caught.exception.code, "OUT_OF_RANGE", caught.exception)
        self.expect("NOT_FOUND", "OUTPUT_NOT_FOUND", "output", self.client.stream_down, "Data/ReadOutput",
                    self.data.ReadOutputRequest(job=job.id, output="valeu"))
        self.expect("INVALID_ARGUMENT", "BAD_PAGE_TOKEN", "page_token", self.client.call, "Data/ListOutput",
                    self.data.ListOutputRequest(job=job.id, output="value", page_token="-1"))
        for region in (self.types.Region(segment=1, offset=2 ** 63, length=2 ** 63), self.types.Region(),
                       self.types.Region(segment=2 ** 64 - 1, offset=0, length=1)):
            with self.assertRaises(Refused) as caught:
                self.client.stream_down("Data/ReadRegion", self.data.ReadRegionRequest(region=region))
            self.assertIn(caught.exception.code, ("NOT_FOUND", "INVALID_ARGUMENT", "OUT_OF_RANGE"))

    def put(self, sha256, size, *chunks, offset=0):
        header = self.data.PutBlobHeader(blob=self.types.BlobRef(sha256=sha256, size=size), offset=offset)
        requests = [self.data.PutBlobRequest(header=header), *(self.data.PutBlobRequest(data=chunk) for chunk in chunks)]
        return self.client.stream_up("Data/PutBlob", requests, self.data.BlobStat)

    def test_uploads_that_are_not_what_they_say(self):
        content = random.Random(1).randbytes(100_000)
        right = hashlib.sha256(content).digest()
        wrong = hashlib.sha256(b"another").digest()
        for reason, args, options in (
                ("CHECKSUM_MISMATCH", (wrong, len(content), content), {}),
                ("BAD_LOCATOR", (b"short", 5, b"12345"), {}),
                ("", (right, len(content), content[5:]), {"offset": 5}),
                ("", (right, len(content), content, b"more"), {}),
                ("", (right, len(content), content), {"offset": 2 ** 64 - 1}),
                ("", (right, 2 ** 63, content), {})):
            with self.assertRaises(Refused, msg=(reason, options)) as caught:
                self.put(*args, **options)
            self.assertIn(caught.exception.code, ("INVALID_ARGUMENT", "OUT_OF_RANGE", "RESOURCE_EXHAUSTED"))
            self.assertNotEqual(caught.exception.reason, "", caught.exception)
            if reason:
                self.assertEqual(caught.exception.reason, reason)
        stat = self.data.StatBlobsRequest(blobs=[self.types.BlobRef(sha256=right, size=len(content))])
        answer = self.client.call("Data/StatBlobs", stat, self.data.StatBlobsResponse)
        self.assertFalse(answer.blobs[0].present)
        self.assertTrue(self.put(right, len(content), content).present)
        # No header, two headers, a chunk over its limit.
        header = self.data.PutBlobRequest(header=self.data.PutBlobHeader(blob=self.types.BlobRef(sha256=wrong, size=10)))
        for requests in ([self.data.PutBlobRequest(data=b"x")], [header, header], [],
                         [header, self.data.PutBlobRequest(data=b"x" * (2 << 20))], [header, b"\xff\xff\xff"]):
            with self.assertRaises(Refused):
                self.client.stream_up("Data/PutBlob", requests)

    def test_an_upload_that_is_cut_off_goes_on_where_it_ended(self):
        content = random.Random(2).randbytes(300_000)
        name, size = hashlib.sha256(content).digest(), len(content)
        stat = self.data.StatBlobsRequest(blobs=[self.types.BlobRef(sha256=name, size=size)])

        def cut():
            header = self.data.PutBlobHeader(blob=self.types.BlobRef(sha256=name, size=size))
            yield self.data.PutBlobRequest(header=header)
            yield self.data.PutBlobRequest(data=content[:200_000])
        with self.assertRaises(Refused):  # it ends too early
            self.client.stream_up("Data/PutBlob", cut())
        found = self.client.call("Data/StatBlobs", stat, self.data.StatBlobsResponse).blobs[0]
        self.assertEqual((found.present, found.uploaded), (False, 200_000))
        self.assertTrue(self.put(name, size, content[200_000:], offset=200_000).present)
        chunks = self.client.stream_down("Data/ReadBlob", self.data.ReadBlobRequest(
            blob=self.types.BlobRef(sha256=name, size=size)))
        self.assertEqual(b"".join(self.data.Chunk.FromString(chunk).data for chunk in chunks), content)

    def test_workers_streams_from_strangers(self):
        for content in ([b""], [b"\xff\xff"], [delimited(1, b"\xff" * 40)], [b"\x0a\x00"] * 50, []):
            for method in ("tandem.v1.Data/PushRegions", "tandem.worker.v1.WorkerControl/Attach"):
                try:
                    self.client.stream_both(method, content, timeout=3)
                except Refused:
                    continue

    def call_raw(self, method, *requests):
        rpc = self.client.channel.stream_stream("/" + method)
        return list(rpc(iter(requests), timeout=30))

    def test_health_is_that_of_grpc(self):
        serving = b"\x08\x01"  # HealthCheckResponse{status: SERVING}
        self.assertEqual(self.call_raw("grpc.health.v1.Health/Check", b""), [serving])
        with self.assertRaises(grpc.RpcError) as unknown:
            self.call_raw("grpc.health.v1.Health/Check", delimited(1, b"no.such.Service"))
        self.assertEqual(unknown.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_reflection_lists_the_services_and_their_files(self):
        method = "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        [listed] = self.call_raw(method, delimited(7, b"*"))  # list_services
        services = {fields(service)[1][0].decode() for service in fields(fields(listed)[6][0])[1]}
        self.assertLessEqual({"tandem.v1.Jobs", "tandem.v1.Data", "tandem.v1.Cluster", "grpc.health.v1.Health"}, services)
        [found] = self.call_raw(method, delimited(4, b"tandem.v1.Jobs"))  # file_containing_symbol
        files = [descriptor_pb2.FileDescriptorProto.FromString(file) for file in fields(fields(found)[4][0])[1]]
        methods = {method.name for file in files for service in file.service if service.name == "Jobs"
                   for method in service.method}
        self.assertLessEqual({"SubmitJob", "GetJob", "ListJobs", "WatchJob", "CancelJob"}, methods)

    def test_bytes_that_are_no_http(self):
        rng = random.Random(5)
        host, port = self.cluster.address.split(":")
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        for number in range(60):
            with socket.create_connection((host, int(port))) as stranger:
                content = (b"GET / HTTP/1.1\r\n\r\n", rng.randbytes(5000), preface + rng.randbytes(5000),
                           preface + b"\xff\xff\xff\x00" * 20, preface)[number % 5]
                try:
                    stranger.sendall(content)
                except OSError:
                    continue  # it has hung up on us

    def test_random_bytes_in_a_good_request(self):
        rng = random.Random(4)
        good = self.jobs.SubmitJobRequest(spec=self.saxpy(), request_id="fuzz").SerializeToString()
        for number in range(1500):
            bad = bytearray(good)
            for _ in range(rng.choice((1, 2, 5))):
                bad[rng.randrange(len(bad))] = rng.randrange(256)
            if rng.random() < 0.2:
                bad = bad[:rng.randrange(len(bad))]
            try:
                self.client.call("Jobs/PlanJob", bytes(bad))
                self.client.call("Jobs/SubmitJob", bytes(bad) + delimited(2, b"fuzz-%d" % number))
            except Refused as refused:
                self.assertIn(refused.code, ("INVALID_ARGUMENT", "INTERNAL", "NOT_FOUND", "UNIMPLEMENTED",
                                             "FAILED_PRECONDITION"), refused)
                if refused.code == "INTERNAL":  # gRPC's own, of what is no message at all
                    self.assertEqual(refused.reason, "", refused)


if __name__ == "__main__":
    main()
