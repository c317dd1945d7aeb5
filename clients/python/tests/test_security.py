"""TLS and tokens, against a real server and against one that wants a token."""

import asyncio
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import grpc
import hindsight
from hindsight import _security, aio, errors
from hindsight.v1 import model_pb2, model_pb2_grpc
from tests.server import TIMEOUT, Server

ONCE = hindsight.Retry(max_tries=1)


def openssl(directory, *arguments):
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True, timeout=TIMEOUT)


def issue(directory, name, extensions, ca="ca", days="2"):
    """Writes name.crt and name.key, signed by ca.crt."""
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    if ca == name:
        openssl(directory, "req", "-x509", *curve, "-days", days, "-keyout", f"{name}.key", "-out", f"{name}.crt", "-subj", f"/CN={name}")
        return
    (directory / "extensions").write_text(extensions + "\n")
    openssl(directory, "req", "-new", *curve, "-keyout", f"{name}.key", "-out", "request", "-subj", f"/CN={name}")
    openssl(
        directory, "x509", "-req", "-in", "request", "-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-CAcreateserial", "-days", days,
        "-out", f"{name}.crt", "-extfile", "extensions",
    )


@unittest.skipUnless(shutil.which("openssl"), "openssl makes the certificates")
class TLSTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="hindsight-python-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        issue(cls.dir, "ca", "", ca="ca")
        issue(cls.dir, "other", "", ca="other")
        issue(cls.dir, "host", "subjectAltName=DNS:localhost,IP:127.0.0.1")
        issue(cls.dir, "away", "subjectAltName=DNS:away.example")
        issue(cls.dir, "alice", "extendedKeyUsage=clientAuth")
        cls.plain = cls.serve()
        cls.tls = cls.serve("--tls-cert", cls.file("host.crt"), "--tls-key", cls.file("host.key"))
        cls.mutual = cls.serve(
            "--tls-cert", cls.file("away.crt"), "--tls-key", cls.file("away.key"), "--tls-client-ca", cls.file("ca.crt"),
        )
        cls.own = {"ca": cls.file("ca.crt"), "cert": cls.file("alice.crt"), "key": cls.file("alice.key")}

    @classmethod
    def file(cls, name):
        return str(cls.dir / name)

    @classmethod
    def serve(cls, *flags):
        server = Server(*flags)
        cls.addClassCleanup(server.close)
        return server.address

    def test_both_clients(self):
        for address, how in (
            (self.tls, {"ca": self.dir / "ca.crt"}),
            (self.mutual, self.own | {"server_name": "away.example"}),
        ):
            with self.subTest(address), hindsight.connect(address, timeout=TIMEOUT, **how) as client:
                model = client.create("secured", {"dimension": 1})
                self.assertEqual(model.observe([1], 2).sequence, 1)
                self.assertEqual(model.observe([1], 2).sequence, 2)

            async def use(address=address, how=how):
                async with aio.connect(address, timeout=TIMEOUT, **how) as client:
                    return await client.model("secured").observe([1], 2)

            self.assertEqual(asyncio.run(use()).sequence, 3)

    def test_errors_say_what_to_do(self):
        for name, address, how, said in (
            ("plaintext to TLS", self.tls, {}, "may want TLS"),
            ("TLS to plaintext", self.plain, {"ca": self.file("ca.crt")}, "does not speak TLS"),
            ("wrong CA", self.tls, {"ca": self.file("other.crt")}, "not in ca"),
            ("CAs of the system", self.tls, {"tls": True}, "not in ca"),
            ("wrong host", self.mutual, self.own, "give server_name"),
            ("no certificate", self.mutual, {"ca": self.file("ca.crt"), "server_name": "away.example"}, "give cert and key"),
        ):
            with self.subTest(name), hindsight.connect(address, retry=ONCE, timeout=TIMEOUT, **how) as client:
                with self.assertRaises(errors.Unreachable) as caught:
                    list(client.models())
                self.assertIn(said, str(caught.exception))

    def test_arguments_that_do_not_fit(self):
        for how, said in (
            ({"cert": self.file("alice.crt")}, "both or none"),
            ({"cert": self.file("alice.crt"), "key": self.file("host.key")}, "mismatch"),
            ({"ca": self.file("alice.key")}, "alice.key"),
            ({"ca": self.file("ca.crt"), "credentials": grpc.ssl_channel_credentials()}, "exclude"),
        ):
            with self.subTest(said), self.assertRaisesRegex(ValueError, "(?i)" + said):
                hindsight.connect("localhost", **how)
        with self.assertRaisesRegex(FileNotFoundError, "none"):
            hindsight.connect("localhost", ca=self.file("none"))


class Guarded(model_pb2_grpc.ModelServiceServicer):
    """Wants the token s3cret."""

    def ListModels(self, request, context):
        if dict(context.invocation_metadata()).get("authorization") != "Bearer s3cret":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "who is it?")
        return model_pb2.ListModelsResponse()


class TokenTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
        model_pb2_grpc.add_ModelServiceServicer_to_server(Guarded(), server)
        cls.address = f"localhost:{server.add_insecure_port('localhost:0')}"
        server.start()
        cls.addClassCleanup(lambda: server.stop(None).wait(TIMEOUT))

    def list(self, **how):
        with hindsight.connect(self.address, timeout=TIMEOUT, retry=ONCE, **how) as client:
            return list(client.models())

    def test_text_function_and_file(self):
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory) / "token"
            file.write_text("s3cret\n")
            for token in ("s3cret", lambda: "s3cret", file):
                with self.subTest(token):
                    self.assertEqual(self.list(token=token), [])

            async def use():
                async with aio.connect(self.address, timeout=TIMEOUT, token=file) as client:
                    return [m async for m in client.models()]

            self.assertEqual(asyncio.run(use()), [])
            with hindsight.connect(self.address, timeout=TIMEOUT, retry=ONCE, token=file) as client:
                file.write_text("another")
                with self.assertRaises(errors.Unauthenticated):
                    list(client.models())
                file.write_text("s3cret")
                self.assertEqual(list(client.models()), [])

    def test_rejections(self):
        for how, said in (
            ({}, "give token"),
            ({"token": "guess"}, "does not take the token"),
            ({"token": "two words"}, "printable ASCII"),
            ({"token": lambda: ""}, "printable ASCII"),
            ({"token": pathlib.Path("/nowhere/at/all")}, "cannot be read"),
            ({"token": lambda: os.environ["HINDSIGHT_NOT_SET"]}, "cannot be read"),
        ):
            with self.subTest(said), self.assertRaises(errors.Unauthenticated) as caught:
                self.list(**how)
            self.assertIn(said, str(caught.exception))

    def test_stays_off_the_wire(self):
        for address, local in {
            "localhost:1": True, "127.0.0.1:1": True, "[::1]:1": True, "unix:/run/h": True, "127.9.9.9:1": True,
            "dns:///localhost:1": True, "10.0.0.1:1": False, "h.example:1": False, "localhost.example:1": False,
            "dns:///h.example:1": False, "dns://10.0.0.1/localhost:1": False, "[2001:db8::1]:1": False,
        }.items():
            with self.subTest(address):
                self.assertEqual(_security.is_local(address), local)
        with self.assertRaisesRegex(ValueError, "plaintext"):
            hindsight.connect("h.example", token="s3cret")
        hindsight.connect("h.example", token="s3cret", tls=True).close()
        hindsight.connect("h.example", token="s3cret", token_in_plaintext=True).close()


if __name__ == "__main__":
    unittest.main()
