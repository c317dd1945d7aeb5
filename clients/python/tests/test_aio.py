"""The client for asyncio against a real server."""

import asyncio
import datetime
import io
import unittest

import hindsight
from hindsight import aio, errors
from tests.server import TIMEOUT, Proxy, Server


class AioTest(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.close)

    async def asyncSetUp(self):
        self.client = aio.connect(self.server.address, timeout=TIMEOUT)
        self.addAsyncCleanup(self.client.close)
        self.name = self.id().rsplit(".", 1)[1].replace("_", "-")
        self.model = await self.client.create(self.name, {"dimension": 2, "linear_awv": {}})

    async def test_a_round(self):
        prediction = await self.model.predict([0.5, 1])
        outcome = await self.model.observe(prediction, 3)
        self.assertEqual((outcome.sequence, outcome.served_loss), (1, 9))
        self.assertTrue((await self.model.observe(prediction.prediction_id, 3)).duplicate)
        outcomes = await asyncio.gather(*(self.model.observe([n, 1], n) for n in range(20)))
        self.assertEqual(sorted(o.sequence for o in outcomes), list(range(2, 22)))
        with self.assertRaises(errors.InvalidArgument) as caught:
            await self.model.predict([1])
        self.assertEqual(caught.exception.reason, "DIMENSION_MISMATCH")

    async def test_batches_and_life(self):
        predictions = await self.model.predict_batch([[1, 2], [3, 4]])
        await self.model.observe_batch(predictions, [1, 2])
        self.assertEqual((await self.model.snapshot()).sequence, 2)
        out = io.BytesIO()
        await self.model.export(out)
        self.assertEqual((await self.client.import_model(self.name + "-copy", out.getvalue())).sequence, 2)
        self.assertEqual(len([m async for m in self.client.models(prefix=self.name)]), 2)
        now = datetime.datetime.now(datetime.timezone.utc)
        self.assertEqual((await self.model.restore(time=now)).undone, 0)
        self.assertEqual((await self.model.restore(0)).model.sequence, 0)
        self.assertEqual((await self.model.stats()).observations, 0)
        await self.client.model(self.name + "-copy").delete()
        with self.assertRaises(errors.ModelNotFound):
            await self.client.model(self.name + "-copy").get()

    async def test_a_server_without_a_cluster(self):
        self.assertEqual((await self.client.cluster()).servers, ())
        with self.assertRaises(errors.FailedPrecondition):
            await self.client.drain_server("a")

    async def test_killed_between_observe_and_answer(self):
        server = Server()
        self.addCleanup(server.close)
        proxy = Proxy(server.address)
        self.addCleanup(proxy.close)
        async with aio.connect(proxy.address, timeout=TIMEOUT) as client, aio.connect(server.address, timeout=TIMEOUT) as direct:
            await client.create("crash", {"dimension": 1, "linear_awv": {}})
            proxy.keep("answers")
            observed = asyncio.create_task(client.model("crash").observe([1], 2.0))
            self.assertTrue(await asyncio.to_thread(proxy.kept.wait, TIMEOUT))
            while (await direct.model("crash").get()).sequence != 1:
                pass
            await asyncio.to_thread(server.kill)
            proxy.keep("")
            proxy.drop()
            await asyncio.to_thread(server.start)
            outcome = await observed
            self.assertEqual((outcome.sequence, outcome.duplicate), (1, True))
            self.assertEqual((await direct.model("crash").get()).sequence, 1)

    async def test_no_server(self):
        server = Server()
        server.close()
        async with aio.connect(server.address, retry=hindsight.Retry(max_tries=2), timeout=TIMEOUT) as client:
            with self.assertRaises(errors.Unreachable) as caught:
                await client.model("a").get()
        self.assertEqual(caught.exception.tries, 2)


if __name__ == "__main__":
    unittest.main()
