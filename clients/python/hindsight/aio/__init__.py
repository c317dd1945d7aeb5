"""The client for asyncio: as hindsight, with await.

    async with hindsight.aio.connect("localhost:50051") as client:
        model = await client.create("energy", {"dimension": 2})
        prediction = await model.predict([0.5, 1.0])
        await model.observe(prediction, 3.0)
"""

from hindsight.aio.client import Client, Model

connect = Client.connect

__all__ = ["Client", "Model", "connect"]
