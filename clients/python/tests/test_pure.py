"""What needs no server: values, errors, retries, addresses."""

import datetime
import decimal
import unittest

import grpc

from hindsight import _calls, _channel, _values, errors, messages
from hindsight._client import details_pb2
from hindsight._servers import Place, Servers
from hindsight.retry import Retry, Tries, backoff
from hindsight.v1 import model_pb2, prediction_pb2, spec_pb2


def status(code, reason="", retry_after=None, violations=(), domain="hindsight"):
    """A google.rpc.Status as a server sends it."""
    s = details_pb2.Status(code=code.value[0], message="something")

    def add(name, message):
        s.details.add(type_url="type.googleapis.com/google.rpc." + name, value=message.SerializeToString())

    if reason:
        add("ErrorInfo", details_pb2.ErrorInfo(reason=reason, domain=domain, metadata={"field": "x"}))
    if retry_after is not None:
        info = details_pb2.RetryInfo()
        info.retry_delay.FromTimedelta(datetime.timedelta(seconds=retry_after))
        add("RetryInfo", info)
    if violations:
        bad = details_pb2.BadRequest()
        for field, description in violations:
            bad.field_violations.add(field=field, description=description, reason=reason)
        add("BadRequest", bad)
    return s


class FakeError(grpc.RpcError):
    """An error of gRPC."""

    def __init__(self, code, trailers):
        self._code, self._trailers = code, trailers

    def code(self):
        return self._code

    def details(self):
        return "details"

    def trailing_metadata(self):
        return self._trailers


class ReprTest(unittest.TestCase):
    def test_a_figure_says_of_which_predictions_it_is(self):
        outcome = messages.Outcome.of(
            prediction_pb2.Outcome(sequence=3, prediction=1, loss=0.25, served_loss=4, regret=0.5, recent_loss=2, recent_skill=-1)
        )
        for said in (
            "Outcome(sequence=3, prediction=1.0 (prequential), loss=0.25 (prequential), ", "served_loss=4.0, ",
            "regret=0.5 (prequential), ", "recent_loss=2.0 (served), recent_skill=-1.0 (served), ",
        ):
            self.assertIn(said, repr(outcome))
        stats = messages.ModelStats.of(model_pb2.ModelStats(loss_sum=3, mean_loss=1.5, served_loss_sum=2))
        for said in ("loss_sum=3.0 (prequential), mean_loss=1.5 (prequential), ", "served_loss_sum=2.0, "):
            self.assertIn(said, repr(stats))
        self.assertIn("loss_before=1.0 (served)", repr(messages.Drift.of(model_pb2.Drift(loss_before=1))))


class ValuesTest(unittest.TestCase):
    def test_features(self):
        self.assertEqual(_values.features((1, 2.5)), [1.0, 2.5])
        with self.assertRaises(TypeError):
            _values.features("12")
        with self.assertRaises(TypeError):
            _values.features([None])

    def test_what_is_no_number_is_named(self):
        request = prediction_pb2.ObserveRequest()
        for call, message in [
            (lambda: _values.features([1, "Oslo"]), "features[1]: got 'Oslo', want a number"),
            (lambda: _values.set_label(request, [1, "Oslo"]), "labels[1]: got 'Oslo', want a number"),
            (lambda: _calls.observe_batch("m", [[1]], [["up"]], None, None), "labels[0]: got 'up', want a number"),
        ]:
            with self.assertRaises(ValueError) as raised:
                call()
            self.assertEqual(str(raised.exception), message)
        with self.assertRaisesRegex(TypeError, "features.0.: got None, want a number"):
            _values.features([None])

    def test_a_frame_is_no_list_of_rows(self):
        class Frame:
            columns = ["a", "b"]

            def iterrows(self):
                return iter(())

            def __iter__(self):
                return iter(self.columns)

        for call, instead in [
            (lambda: _calls.predict_batch("m", Frame(), None, None, False), "predict_frame"),
            (lambda: _calls.observe_batch("m", Frame(), [1], None, None), "learn_frame"),
            (lambda: _calls.predict("m", Frame(), None, None, False), "predict_frame"),
        ]:
            with self.assertRaisesRegex(TypeError, f"got a DataFrame, want rows: {instead}"):
                call()

    def test_inputs(self):
        at = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))
        s = _values.inputs({
            "n": 1, "f": 2.5, "d": decimal.Decimal("0.5"), "b": True, "t": "x", "none": None, "at": at,
            "naive": at.replace(tzinfo=None), "day": at.date(), "list": [1, 2],
        })
        kinds = {k: v.WhichOneof("kind") for k, v in s.fields.items()}
        self.assertEqual(kinds, {
            "n": "number_value", "f": "number_value", "d": "number_value", "b": "bool_value", "t": "string_value",
            "none": "null_value", "at": "string_value", "naive": "string_value", "day": "string_value", "list": "list_value",
        })
        self.assertEqual(s.fields["at"].string_value, "2026-01-02T03:04:05+01:00")
        self.assertEqual(s.fields["naive"].string_value, "2026-01-02T03:04:05+00:00")
        self.assertEqual(s.fields["day"].string_value, "2026-01-02T00:00:00+00:00")
        missing = _values.inputs({"nan": float("nan"), "decimal": decimal.Decimal("NaN")})
        self.assertEqual({v.WhichOneof("kind") for v in missing.fields.values()}, {"null_value"})
        for wrong in ({"x": {"y": 1}}, {"x": object()}, {1: 2}, {"x": {1.0, 2.0}}, {"x": 1j}):
            with self.assertRaises(TypeError):
                _values.inputs(wrong)

    def test_an_integer_that_is_too_large(self):
        with self.assertRaisesRegex(ValueError, "input 'n': got an integer that is too large"):
            _values.inputs({"n": 10**400})
        with self.assertRaisesRegex(ValueError, r"features\[1\]: got an integer that is too large"):
            _values.features([1, 10**400])

    def test_empty_list_is_a_list(self):
        self.assertEqual(_values.inputs({"v": []}).fields["v"].WhichOneof("kind"), "list_value")

    def test_labels(self):
        def target(label):
            r = prediction_pb2.ObserveRequest()
            _values.set_label(r, label)
            return r.WhichOneof("target")

        self.assertEqual([target(x) for x in (0, 0.0, "a", [1, 2])], ["label", "label", "class", "labels"])
        for wrong in (None, b"spam"):
            with self.assertRaisesRegex(TypeError, "a label is a number, a class as a text"):
                target(wrong)

    def test_an_id_is_a_text(self):
        for call in (
            lambda: _calls.observe("m", [1], 1, None, 5), lambda: _calls.predict("m", [1], 5, None, True),
            lambda: _calls.observe_batch("m", [[1]], [1], None, [5]), lambda: _calls.predict_batch("m", [[1]], [5], None, True),
        ):
            with self.assertRaisesRegex(TypeError, r"an id is a text, not 5 \(int\)"):
                call()

    def test_spec(self):
        given = {"dimension": 2, "seed": 7, "raker": {"loss": "LOSS_LOGISTIC", "kernels": [{"sigma": 2.0}]}}
        message = _values.spec(given)
        self.assertEqual(_values.spec_dict(message), given)
        self.assertEqual(_values.spec('{"dimension": 2}'), spec_pb2.ModelSpec(dimension=2))
        self.assertIs(_values.spec(message), message)

    def test_unknown_enum(self):
        self.assertEqual(_values.enum_name(spec_pb2.Loss, 1), "LOSS_SQUARED")
        self.assertEqual(_values.enum_name(spec_pb2.Loss, 99), "99")


class AddressTest(unittest.TestCase):
    def test_target(self):
        for given, want in {
            "localhost": "localhost:50051", "h:1": "h:1", "10.0.0.1": "10.0.0.1:50051", "::1": "[::1]:50051",
            "[::1]": "[::1]:50051", "[::1]:1": "[::1]:1", "dns:///h:1": None, "unix:/tmp/s": "unix:/tmp/s", "": None,
            "http://h:1": None,
        }.items():
            with self.subTest(given):
                if want is None:
                    self.assertRaises(ValueError, _channel.target, given)
                else:
                    self.assertEqual(_channel.target(given), want)

    def test_keepalive_that_the_server_rejects(self):
        with self.assertRaisesRegex(ValueError, "keepalive"):
            _channel.options("a:1", 1.0, None)
        self.assertEqual(dict(_channel.options("a:1", None, {"a": 1}))["a"], 1)
        for address, want in (("localhost:1", 0), ("127.0.0.2:1", 0), ("[::1]:1", 0), ("unix:/s", 0), ("dns:///localhost:1", 0), ("a:1", None)):
            self.assertEqual(dict(_channel.options(address, None, None)).get("grpc.enable_http_proxy"), want, address)

    def test_servers(self):
        channels = [grpc.insecure_channel(f"127.0.0.1:{port}") for port in (1, 2, 3)]
        for channel in channels:
            self.addCleanup(channel.close)
        servers = Servers(channels)
        self.assertEqual(servers.share(9.0), 3.0)
        late = errors.DeadlineExceeded("late", code=grpc.StatusCode.DEADLINE_EXCEEDED)
        self.assertTrue(servers.failed(Place("", "", 0), late))
        self.assertTrue(late.retryable)
        for at, error, moved, current in [
            (0, errors.Unavailable("another call has moved on"), True, 1),
            (1, errors.NotFound("none"), False, 1),
            (1, errors.NotOwner("none"), True, 2),
            (2, errors.Unreachable("gone"), True, 0),
        ]:
            self.assertEqual(servers.failed(Place("", "", at), error), moved)
            self.assertEqual(servers.place().at, current)
        # Group 2 has the names b and c.
        for at, model, current in [
            (0, "b.v1", 1),
            (0, "b.v2", 1),  # Another call has moved on.
            (1, "b", 2),
            (0, "c", 2),
            (2, "c", 0),
        ]:
            name = model.partition(".")[0]
            servers.forwarded(Place(name, "", at), [("x", "y"), ("hindsight-forwarded", "2")])
            self.assertEqual(servers.place(model), Place(name, "2", current))
        servers.forwarded(Place("a", "", 0), [("x", "y")])
        self.assertEqual(servers.place("a"), Place("a", "", 0))
        self.assertTrue(servers.failed(Place("b", "2", 0), errors.Unreachable("gone")))
        self.assertEqual(servers.place("b").at, 1)
        servers.forwarded(servers.place(), [("hindsight-forwarded", "2")])  # A call of no model.
        self.assertEqual(servers.place(), Place("", "", 0))
        one = Servers(channels[:1])
        self.assertFalse(one.failed(Place("", "", 0), errors.Unreachable("gone")))
        one.forwarded(Place("b", "", 0), [("hindsight-forwarded", "2")])
        self.assertEqual(one.place("b"), Place("b", "", 0))
        self.assertFalse(servers.sent(errors.Unreachable("Failed to connect to remote host")))
        self.assertTrue(servers.sent(errors.Unreachable("Socket closed")))
        self.assertTrue(servers.sent(errors.NotOwner("failed to connect")))


class ErrorsTest(unittest.TestCase):
    def test_trailers(self):
        s = status(grpc.StatusCode.INVALID_ARGUMENT, "NOT_FINITE", violations=[("features[1]", "got NaN"), ("label", "got Inf")])
        e = errors.of_call(FakeError(grpc.StatusCode.INVALID_ARGUMENT, [("x", "y"), ("grpc-status-details-bin", s.SerializeToString())]), "h:1")
        self.assertIs(type(e), errors.InvalidArgument)
        self.assertEqual((e.reason, e.metadata, len(e.violations), e.retryable), ("NOT_FINITE", {"field": "x"}, 2, False))
        self.assertEqual(str(e), "something (NOT_FINITE); features[1]: got NaN; label: got Inf")

    def test_no_server(self):
        e = errors.of_call(FakeError(grpc.StatusCode.UNAVAILABLE, None), "h:1")
        self.assertIs(type(e), errors.Unreachable)
        self.assertTrue(e.retryable)
        self.assertIn("h:1", str(e))

    def test_classes(self):
        code = grpc.StatusCode
        for s, want, retryable in (
            (status(code.RESOURCE_EXHAUSTED, "OVERLOADED", 0.05), errors.Overloaded, True),
            (status(code.RESOURCE_EXHAUSTED, "PENDING_LIMIT", 60), errors.Overloaded, True),
            (status(code.RESOURCE_EXHAUSTED, "MODEL_LIMIT"), errors.LimitReached, False),
            (status(code.RESOURCE_EXHAUSTED, "OF_A_LATER_SERVER", 1), errors.Overloaded, True),
            (status(code.UNAVAILABLE, "STORAGE_FAILED"), errors.StorageFailed, False),
            (status(code.UNAVAILABLE, "SHUTTING_DOWN", 1), errors.Unavailable, True),
            (status(code.UNAVAILABLE, "OUTCOME_UNKNOWN", 0.1), errors.OutcomeUnknown, True),
            (status(code.UNAVAILABLE, "NOT_OWNER", 0.05), errors.NotOwner, True),
            (status(code.NOT_FOUND, "OF_A_LATER_SERVER"), errors.NotFound, False),
            (status(code.NOT_FOUND, "MODEL_NOT_FOUND", domain="another"), errors.NotFound, False),
            (status(code.DATA_LOSS, "STATE_CORRUPT"), errors.StateCorrupt, False),
            (status(code.UNIMPLEMENTED), errors.Unimplemented, False),
            (status(code.UNKNOWN), errors.HindsightError, False),
        ):
            e = errors.of_status(s)
            self.assertIs(type(e), want)
            self.assertEqual(e.retryable, retryable, e)


class RetryTest(unittest.TestCase):
    def test_backoff(self):
        retry = Retry(first=0.1, longest=2.0)
        for tries, most in ((1, 0.1), (2, 0.2), (6, 2.0), (1000, 2.0)):
            waits = [backoff(retry, tries, 3.0) for _ in range(200)]
            self.assertGreaterEqual(min(waits), 3.0)
            self.assertLessEqual(max(waits), 3.0 + most)
            self.assertGreater(max(waits) - min(waits), most / 2)  # It differs from call to call.

    def test_tries(self):
        later = errors.Overloaded("x", retry_after=0.05)
        never = errors.InvalidArgument("x")

        def last(retry, timeout, error, again=True):
            tries = Tries(retry, timeout, again)
            for n in range(1, 5):
                tries.begin()
                try:
                    tries.wait(error)
                except errors.HindsightError as e:
                    return n, e.tries
            return None

        self.assertEqual(last(Retry(), 60, never), (1, 1))
        self.assertEqual(last(Retry(), 60, later, again=False), (1, 1))
        self.assertEqual(last(Retry(max_tries=3), 60, later), (3, 3))
        self.assertEqual(last(Retry(), 0.04, later), (1, 1))  # The wait would pass the deadline.
        self.assertIsNone(last(Retry(), 60, later))

    def test_predictions_bound_the_age_of_their_state(self):
        for call in (
            _calls.predict("m", [1], None, None, False, min_sequence=7, max_staleness=0.5),
            _calls.predict_batch("m", [[1]], None, None, False, min_sequence=7, max_staleness=0.5),
        ):
            self.assertEqual(call.request.min_sequence, 7)
            self.assertEqual(call.request.max_staleness.ToTimedelta(), datetime.timedelta(milliseconds=500))
        self.assertFalse(_calls.predict("m", [1], None, None, False).request.HasField("max_staleness"))

    def test_the_trailers_have_the_age_of_the_state(self):
        call = _calls.predict("m", [1], None, None, False)
        response = prediction_pb2.PredictResponse()
        self.assertIsNone(call.answer(response, None).age)
        trailers = [("x", "y"), ("hindsight-age-ms", "12")]
        self.assertEqual(call.answer(response, trailers).age, datetime.timedelta(milliseconds=12))
        self.assertIsNone(_calls.observe("m", [1], 2, None, None).answer(prediction_pb2.ObserveResponse(), trailers).loss)

    def test_a_change_of_the_cluster_that_may_happen_twice_is_sent_once(self):
        calls = _calls.move_owner("", 0), _calls.move_owner("a", 2), _calls.drain_server("a"), _calls.remove_server("a")
        self.assertEqual([call.again for call in calls], [False, True, True, False])

    def test_ids_are_minted_once(self):
        call = _calls.observe("m", [1], 2.0, None, None)
        self.assertEqual(len(call.request.observation_id), 32)
        self.assertNotEqual(_calls.observe("m", [1], 2.0, None, None).request.observation_id, call.request.observation_id)
        self.assertTrue(_calls.predict("m", [1], None, None, True).request.prediction_id)
        self.assertEqual(_calls.predict("m", [1], None, None, False).request.prediction_id, "")
        self.assertEqual(len(set(_calls.predict_batch("m", [[1]] * 9, None, None, True).request.prediction_ids)), 9)

    def test_what_is_not_sent_again(self):
        self.assertFalse(_calls.restore("m", 1, None, False).again)
        self.assertTrue(_calls.restore("m", 1, None, True).again)
        self.assertFalse(_calls.update("m", "etag", False, display_name="x").again)
        self.assertTrue(_calls.update("m", "", False, display_name="x").again)
        self.assertEqual(_calls.update("m", "", False, display_name="x", labels=_calls.UNCHANGED, label_ttl=None).request.update_mask.paths, ["display_name", "label_ttl"])


    def test_restore_to_a_time(self):
        moment = datetime.datetime(2026, 3, 1, 10, 30, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))
        request = _calls.restore("m", None, moment, False).request
        self.assertEqual(request.time.ToJsonString(), "2026-03-01T09:30:00Z")
        self.assertFalse(request.HasField("sequence"))
        request = _calls.restore("m", 0, None, False).request
        self.assertTrue(request.HasField("sequence"))
        self.assertFalse(request.HasField("time"))
        for given in ((None, None), (1, moment)):
            with self.assertRaisesRegex(TypeError, "a sequence or a time"):
                _calls.restore("m", *given, False)
        with self.assertRaisesRegex(ValueError, "2026-03-01T10:30:00 has no offset from UTC"):
            _calls.restore("m", None, moment.replace(tzinfo=None), False)


if __name__ == "__main__":
    unittest.main()
