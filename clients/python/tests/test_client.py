"""The synchronous client against a real server."""

import asyncio
import datetime
import io
import pickle
import random
import threading
import time
import unittest

import hindsight
from hindsight import aio, errors
from tests.server import TIMEOUT, Proxy, Server, cluster

NAMED = {"inputs": [{"name": "temperature", "numeric": {}}, {"name": "city", "categorical": {}}, {"name": "at", "time": {}}]}
OUTPUTS = {"dimension": 1, "outputs": 2, "linear_awv": {}}


class ClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.close)
        cls.client = hindsight.connect(cls.server.address, timeout=TIMEOUT)
        cls.addClassCleanup(cls.client.close)

    def model(self, spec=None):
        return self.client.create(self.id().rsplit(".", 1)[1].replace("_", "-").lower(), spec or {"dimension": 2, "linear_awv": {}})

    def test_learners(self):
        learners = {l.name: l for l in self.client.learners()}
        self.assertIn("lambda", [f.name for f in learners["linear_awv"].fields])
        for name in learners:
            self.client.validate({"dimension": 2, name: {}})

    def test_the_servers_of_a_cluster(self):
        second = Server()
        self.addCleanup(second.close)
        dead = "127.0.0.1:1"
        for client in [
            hindsight.connect(f"{dead}, {second.address},{self.server.address}", token="t", timeout=TIMEOUT),
            hindsight.connect(f"{dead},{second.address}", retry=hindsight.Retry(max_tries=1)),
        ]:
            with client:
                # A call that is not sent again finds the server that answers.
                with self.assertRaises(errors.ModelNotFound):
                    client.model("none").delete()
        model = self.model()
        with hindsight.connect(f"{second.address},{self.server.address}", timeout=TIMEOUT) as client:
            with self.assertRaises(errors.ModelNotFound):
                client.model(model.id).predict([1, 2])
            second.kill()
            here = client.model(model.id)
            self.assertEqual(here.observe([1, 2], 3).sequence, 1)
            self.assertEqual(here.observe([1, 2], 3).sequence, 2)

    def test_a_server_without_a_cluster(self):
        self.assertEqual(self.client.cluster().servers, ())
        with self.assertRaises(errors.FailedPrecondition) as caught:
            self.client.move_owner()
        self.assertEqual(caught.exception.reason, "NO_CLUSTER")

    def test_a_round(self):
        model = self.model()
        prediction = model.predict([0.5, 1])
        self.assertTrue(prediction.prediction_id)
        self.assertEqual(prediction.value, 0)
        self.assertIsNone(prediction.standard_error)
        outcome = model.observe(prediction, 3)
        self.assertEqual((outcome.sequence, outcome.served_prediction, outcome.served_loss), (1, 0, 9))
        self.assertFalse(outcome.duplicate)
        again = model.observe(prediction, 3.0)
        self.assertTrue(again.duplicate)
        self.assertEqual(again.sequence, 1)

    def test_zero_is_a_label_and_none_is_not(self):
        model = self.model()
        self.assertEqual(model.observe([1, 2], 0).sequence, 1)
        with self.assertRaises(TypeError):
            model.observe([1, 2], None)

    def test_delayed_label_by_id_and_by_pickle(self):
        model = self.model()
        first, second = model.predict([1, 2]), model.predict([2, 1])
        kept = pickle.dumps(first)
        self.assertEqual(model.observe(second.prediction_id, 1.0).sequence, 1)
        outcome = model.observe(pickle.loads(kept), 2.0)
        self.assertEqual((outcome.sequence, outcome.served_prediction), (2, 0))

    def test_prediction_that_is_gone_is_learned_by_its_input_once(self):
        model = self.model()
        with self.assertRaises(errors.PredictionNotFound) as caught:
            model.observe("gone", 1.0)
        self.assertEqual(caught.exception.reason, "PREDICTION_NOT_FOUND")
        late = [model.observe([1, 2], 1.0, id="gone") for _ in range(2)]
        self.assertEqual([(o.sequence, o.duplicate) for o in late], [(1, False), (1, True)])

    def test_a_label_that_cannot_be_right(self):
        model = self.model({"dimension": 1})
        self.assertEqual(model.stats().label_gate.set_aside, 0)
        model.observe_batch([[n / 100] for n in range(200)], [n / 50 for n in range(200)])
        outcome = model.observe([0.5], -1e6, id="bad")
        self.assertEqual((outcome.set_aside, outcome.sequence), (True, 201))
        self.assertTrue(model.observe([0.5], -1e6, id="bad").set_aside)
        gate = model.stats().label_gate
        self.assertEqual((gate.set_aside, gate.last_set_aside, gate.share, gate.starts), (1, 201, 1 / 201, 0))
        off = self.client.create("gate-off", {"dimension": 1, "label_gate": "off"})
        self.assertIsNone(off.stats().label_gate)

    def test_not_remembered(self):
        model = self.model()
        learned = model.observe([2, 1], 1.0)
        prediction = model.predict([1, 2], remember=False, min_sequence=learned.sequence, max_staleness=60)
        self.assertEqual(prediction.prediction_id, "")
        with self.assertRaisesRegex(ValueError, "remember=False"):
            model.observe(prediction, 1.0)

    def test_named_inputs_and_classes(self):
        model = self.model(NAMED | {"classes": {}})
        at = datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.timezone.utc)
        rng = random.Random(1)
        warm = [False, True] + [rng.random() < 0.5 for _ in range(198)]
        rows = [{"temperature": n % 7, "city": "Oslo" if w else None, "at": at} for n, w in enumerate(warm)]
        model.observe_batch(rows, ["warm" if w else "cold" for w in warm])
        prediction = model.predict({"temperature": 3, "city": "Oslo", "at": at})
        self.assertEqual(prediction.class_, "warm")
        self.assertAlmostEqual(sum(prediction.scores.values()), 1)
        self.assertEqual(model.get().classes, ("cold", "warm"))
        with self.assertRaises(errors.InvalidArgument) as caught:
            model.predict({"temperature": 3, "city": "Oslo", "att": at})
        self.assertIn(caught.exception.reason, ("UNKNOWN_INPUT", "MISSING_INPUT"))
        self.assertTrue(caught.exception.violations)

    def test_several_outputs(self):
        model = self.model(OUTPUTS)
        self.assertEqual(model.observe([1], [1.0, 2.0]).sequence, 1)
        self.assertEqual(len(model.predict([1]).values), 2)

    def test_batches(self):
        model = self.model()
        predictions = model.predict_batch([[1, 2], [3, 4], [5, 6]])
        self.assertEqual(len({p.prediction_id for p in predictions}), 3)
        outcomes = model.observe_batch([predictions[0], predictions[1].prediction_id, [7, 8]], [1, 2, 3], weights=[1, 2, 1])
        self.assertEqual([o.sequence for o in outcomes], [1, 2, 3])
        with self.assertRaises(errors.InvalidArgument) as caught:
            model.observe_batch([[1, 2], [1]], [1, 2])
        self.assertEqual(caught.exception.violations[0].field, "observations[1].features")
        self.assertEqual(model.get().sequence, 3)  # All or none.
        with self.assertRaisesRegex(ValueError, "2 rows and 1 labels"):
            model.observe_batch([[1, 2], [3, 4]], [1])
        with self.assertRaises(errors.InvalidArgument) as caught:
            model.predict_batch([[0, 0]] * 4097)
        self.assertEqual(caught.exception.reason, "BATCH_TOO_LARGE")

    def test_life_of_a_model(self):
        model = self.model({"dimension": 2, "seed": 7, "fourier_awv": {"frequencies": 10}})
        self.assertEqual(self.model({"dimension": 2, "seed": 7, "fourier_awv": {"frequencies": 10}}).id, model.id)
        with self.assertRaises(errors.ModelExists):
            self.client.create(model.id, {"dimension": 3})
        info = model.get()
        self.assertEqual((info.learner, info.spec["seed"], info.spec["fourier_awv"]["frequencies"]), ("fourier_awv", 7, 10))
        self.assertEqual(info.create_time.tzinfo, datetime.timezone.utc)
        self.assertEqual(self.client.validate(info.spec).spec, info.spec)
        empty = datetime.datetime.now(datetime.timezone.utc)
        for n in range(5):
            model.observe([n, 1], n)
        self.assertEqual(model.snapshot().sequence, 5)
        self.assertEqual(model.snapshots()[0].sequence, 5)
        model.observe([9, 1], 9)
        out = io.BytesIO()
        self.assertEqual(model.export(out), len(out.getvalue()))
        copy = self.client.import_model(model.id + "-copy", out.getvalue())
        self.assertEqual(copy.sequence, 6)
        self.assertEqual(model.restore(5, validate_only=True).undone, 1)
        restored = model.restore(5)
        self.assertEqual(restored.model.sequence, 5)
        self.assertEqual(model.stats().observations, 5)
        self.assertEqual(model.restore(time=datetime.datetime.now(datetime.timezone.utc)).undone, 0)
        self.assertEqual(model.restore(time=empty, validate_only=True).undone, 5)
        self.assertEqual([m.id for m in self.client.models(prefix=model.id, page_size=1)], [model.id, model.id + "-copy"])
        self.client.model(model.id + "-copy").delete()
        with self.assertRaises(errors.ModelNotFound):
            self.client.model(model.id + "-copy").predict([1, 2])

    def test_aliases(self):
        first = self.model()
        second = self.client.create(first.id + "-second", {"dimension": 2, "linear_awv": {}})
        self.client.set_alias("champion", first.id)
        champion = self.client.model("champion")
        prediction = champion.predict([1, 2])
        self.assertEqual(prediction.model, first.id)
        with self.assertRaises(errors.AliasMismatch) as caught:
            self.client.set_alias("champion", second.id, expected_model=second.id)
        self.assertEqual(caught.exception.reason, "ALIAS_MISMATCH")
        self.assertEqual(self.client.set_alias("champion", second.id).previous_model, first.id)
        self.assertEqual(champion.observe(prediction, 1).model, first.id)  # By the model that predicted.
        self.assertEqual(champion.observe([1, 2], 1).model, second.id)
        with self.assertRaises(errors.FailedPrecondition):
            second.delete()
        self.assertEqual([a.alias for a in self.client.aliases()], ["champion"])
        self.client.delete_alias("champion")
        with self.assertRaises(errors.NotFound):
            champion.predict([1, 2])

    def test_a_follower_takes_no_observation(self):
        leader = self.model()
        follower = self.client.create(leader.id + "-follower", {"dimension": 2, "linear_awv": {}}, follows=leader.id)
        with self.assertRaises(errors.ModelFollows):
            follower.observe([1, 2], 1)

    def test_errors_are_typed(self):
        model = self.model()
        with self.assertRaises(errors.ModelNotFound) as caught:
            self.client.model("none").predict([1, 2])
        self.assertEqual(caught.exception.reason, "MODEL_NOT_FOUND")
        with self.assertRaises(errors.InvalidSpec):
            self.client.validate({"dimension": -1})
        with self.assertRaisesRegex(ValueError, "dimensoin"):
            self.client.validate({"dimensoin": 1})
        with self.assertRaises(errors.InvalidArgument) as caught:
            model.predict([1, 2, 3])
        error = caught.exception
        self.assertEqual((error.reason, error.metadata["want"]), ("DIMENSION_MISMATCH", "2 numbers"))
        self.assertEqual(str(pickle.loads(pickle.dumps(error))), str(error))
        model.observe([1, 2], 1, id="one")
        with self.assertRaises(errors.ObservationConflict):
            model.observe([1, 2], 2, id="one")

    def test_history_events_and_comparison(self):
        model = self.model()
        model.observe([1, 2], 3)
        for name, call, check in (
            ("history", model.history, lambda h: h.points[-1].sequence == 1),
            ("watch", lambda: next(iter(model.watch())), lambda e: e.stats.observations == 1),
            ("compare", model.compare, lambda c: c[0].model == model.id),
        ):
            with self.subTest(name):
                answer = call()
                self.assertTrue(check(answer), answer)

    def test_update_and_undelete(self):
        model = self.model()
        info = model.update(display_name="Name", labels={"team": "a"})
        self.assertEqual((info.display_name, info.labels), ("Name", {"team": "a"}))
        self.assertEqual(model.update(label_ttl=60).label_ttl, datetime.timedelta(minutes=1))
        self.assertIsNone(model.update(label_ttl=None).label_ttl)
        self.assertEqual(model.get().display_name, "Name")
        with self.assertRaises(errors.EtagMismatch):
            model.update(display_name="Other", etag=info.etag)
        self.assertEqual([m.id for m in self.client.models(labels={"team": "a"})], [model.id])
        self.assertIsNotNone(model.delete())
        self.assertEqual(self.client.undelete(model.id).id, model.id)
        self.assertEqual(model.get().labels, {"team": "a"})

    def test_threads_share_a_client(self):
        model = self.model()
        threads = [threading.Thread(target=lambda: [model.observe([1, n], n) for n in range(20)]) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(TIMEOUT)
        self.assertEqual(model.get().sequence, 80)


class ClusterTest(unittest.TestCase):
    def until(self, what, ready):
        """Waits until an answer is what the test waits for, and returns the answer."""
        deadline = time.monotonic() + TIMEOUT
        while not ready(answer := what()):
            self.assertLess(time.monotonic(), deadline, answer)
            time.sleep(0.05)
        return answer

    def test_three_servers(self):
        clients = []
        for server in cluster():
            self.addCleanup(server.close)
            clients.append(hindsight.connect(server.address, timeout=TIMEOUT))
            self.addCleanup(clients[-1].close)
        voters = {"STATE_OWNER", "STATE_VOTER"}
        met = [self.until(c.cluster, lambda a: a.owner and len(a.servers) == 3 and {s.state for s in a.servers} == voters) for c in clients]
        owner, replica = (next(c for c, a in zip(clients, met) if (a.owner == a.server) == owns) for owns in (True, False))
        spec = {"dimension": 1, "linear_awv": {}}
        model = replica.create("m", spec)
        sequence = model.observe([1], 2).sequence
        # The replica learns at its own pace, and answers what it has learned with the age of its state.
        aged = self.until(lambda: model.predict([1], remember=False, min_sequence=sequence), lambda p: p.age is not None)
        self.assertEqual(aged.state_sequence, sequence)
        self.assertIsInstance(aged.age, datetime.timedelta)
        self.assertIsNotNone(model.predict_batch([[1], [2]], remember=False)[1].age)
        self.assertIsNone(model.predict([1], remember=False, max_staleness=0).age)  # The owner answered.

        # The owner is the last server of the list, unless another is elected meanwhile.
        ordered = sorted(clients, key=lambda c: c is owner)
        addresses = ",".join(c._address for c in ordered)

        def owns(at):
            answer = ordered[at].cluster()
            return answer.owner == answer.server

        self.until(lambda: next(filter(owns, range(3)), 0), lambda at: ordered[at].model("m").predict([1], remember=False).age is None)
        with hindsight.connect(addresses, timeout=TIMEOUT) as client:

            def observe():
                client.model("m").observe([1], 2)
                return client._servers.place("m").at

            self.until(observe, owns)
        asyncio.run(self.aio_finds_the_owner(addresses, owns))

        status = replica.cluster()
        for member in status.servers:
            self.assertTrue(member.reachable)
            self.assertGreater(member.applied, 0)
        replica.move_owner(status.server)
        self.until(replica.cluster, lambda a: a.owner == a.server)
        replica.drain_server(status.server)
        drained = self.until(replica.cluster, lambda a: a.owner not in ("", a.server))
        self.assertTrue(next(s for s in drained.servers if s.server == drained.server).draining)
        with self.assertRaises(errors.FailedPrecondition) as caught:
            replica.remove_server(drained.owner)
        self.assertEqual(caught.exception.reason, "SERVER_STATE")
        other = next(s for s in drained.servers if s.server not in (drained.owner, drained.server))
        replica.remove_server(other.address)
        self.until(replica.cluster, lambda a: len(a.servers) == 2)
        with self.assertRaises(errors.NotFound):
            replica.remove_server("x")

    async def aio_finds_the_owner(self, addresses, owns):
        deadline = time.monotonic() + TIMEOUT
        async with aio.connect(addresses, timeout=TIMEOUT) as client:
            while not owns(client._servers.place("m").at):
                self.assertLess(time.monotonic(), deadline)
                await client.model("m").observe([1], 2)


class CrashTest(unittest.TestCase):
    """The server is killed between the sending of an Observe and its answer."""

    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.close)
        self.proxy = Proxy(self.server.address)
        self.addCleanup(self.proxy.close)
        self.direct = hindsight.connect(self.server.address, timeout=TIMEOUT)
        self.addCleanup(self.direct.close)
        self.model = self.direct.create("crash", {"dimension": 1, "linear_awv": {}})
        self.client = hindsight.connect(self.proxy.address, timeout=TIMEOUT)
        self.addCleanup(self.client.close)

    def observe_over_a_crash(self, keep, until, predicted=True):
        """Observes while one way is kept, kills and restarts, and returns the outcome."""
        model = self.client.model("crash")
        x = model.predict([2]) if predicted else [2]
        self.proxy.keep(keep)
        outcomes = []
        thread = threading.Thread(target=lambda: outcomes.append(model.observe(x, 7.0)))
        thread.start()
        self.assertTrue(self.proxy.kept.wait(TIMEOUT))
        deadline = time.monotonic() + TIMEOUT
        while self.model.get().sequence != until:
            self.assertLess(time.monotonic(), deadline)
        self.server.kill()
        self.proxy.keep("")
        self.proxy.drop()
        self.server.start()
        thread.join(TIMEOUT)
        self.assertEqual(len(outcomes), 1, "the call was not answered")
        return outcomes[0]

    def test_learned_and_the_answer_lost(self):
        outcome = self.observe_over_a_crash("answers", until=1)
        self.assertTrue(outcome.duplicate)
        self.assertEqual((outcome.sequence, outcome.served_prediction), (1, 0))
        self.assertEqual(self.model.get().sequence, 1)

    def test_an_input_learned_and_the_answer_lost(self):
        model = self.client.model("crash")
        model.predict([2])  # The connection is there.
        outcome = self.observe_over_a_crash("answers", until=1, predicted=False)
        self.assertEqual((outcome.sequence, outcome.duplicate), (1, True))
        self.assertEqual(self.model.get().sequence, 1)

    def test_the_request_lost(self):
        outcome = self.observe_over_a_crash("requests", until=0)
        self.assertFalse(outcome.duplicate)
        self.assertEqual(outcome.sequence, 1)
        self.assertEqual(self.model.get().sequence, 1)

    def test_no_server(self):
        self.server.kill()
        with hindsight.connect(self.server.address, timeout=0.5) as client:
            with self.assertRaises(errors.HindsightError) as caught:
                client.model("crash").get()
        self.assertIsInstance(caught.exception, (errors.Unreachable, errors.DeadlineExceeded))
        with hindsight.connect(self.server.address, retry=hindsight.Retry(max_tries=2), timeout=TIMEOUT) as client:
            with self.assertRaises(errors.Unreachable) as caught:
                client.model("crash").get()
        self.assertEqual(caught.exception.tries, 2)
        self.assertIn(self.server.address, str(caught.exception))
        self.server.start()


if __name__ == "__main__":
    unittest.main()
