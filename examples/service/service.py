"""A service that decides whether a connection waits for a late bus.

    pip install ./clients/python
    hindsight-server --data-dir /tmp/hindsight &
    python3 examples/service/service.py 127.0.0.1:8080 journal.jsonl localhost:50051

    curl localhost:8080/departures --json '{"trip": "7", "inputs": {"at": "2026-01-05T06:15:00Z", "city": "Oslo", "rain": false, "temp": 6}}'
    curl localhost:8080/arrivals --json '{"trip": "7", "delay": 4}'

A departure is answered within a second, also without a forecast: then nobody waits. An arrival is
answered once it is on disk. It is learned once, whatever stops meanwhile: the journal remembers
what is not learned yet, and every call has the trip as its id. main.go is the same in Go.
"""

import asyncio
import json
import os
import random
import re
import sys

from hindsight import aio, errors

#: The connection waits for a bus that is this many minutes late at most, in 19 of 20 cases: a
#: tenth of the labels is outside of the interval, half of them above.
WAIT = 9
SPEC = {
    "inputs": [{"name": "at", "time": {}}, {"name": "city", "categorical": {}}, {"name": "rain", "boolean": {}}, {"name": "temp", "numeric": {}}],
    "label": {"min": 0},
}


class Rejected(Exception):
    """A request that this service rejects, with a status of HTTP."""


class Service:
    def __init__(self, journal: str, model: aio.Model) -> None:
        self.model = model
        self.trips: dict = {}  # By id. In your service a table of your database, as is the journal.
        self.arrived: asyncio.Queue = asyncio.Queue()
        self.journal = open(journal, "a+b")
        self.journal.seek(0)
        whole = 0
        for line in self.journal:
            if line.endswith(b"\n"):  # Else the write was cut off, and its request never answered.
                whole += len(line)
                self.apply(json.loads(line))
        self.journal.truncate(whole)
        for id, trip in self.trips.items():
            if "delay" in trip and "settled" not in trip:
                self.arrived.put_nowait(id)

    def apply(self, event: dict) -> None:
        self.trips.setdefault(event["trip"], {}).update(event)

    def write(self, **event) -> None:
        """Makes an event durable, then true. The other tasks wait for the disk."""
        self.journal.write(json.dumps(event).encode() + b"\n")
        self.journal.flush()
        os.fsync(self.journal.fileno())
        self.apply(event)

    async def departure(self, body: dict) -> dict:
        """Predicts, decides, and remembers the decision. A repeated request has the same answer."""
        id, inputs = body["trip"], body["inputs"]
        if id not in self.trips:
            decision = {"wait": False, "expected": None, "at_most": None}
            try:
                prediction = await self.model.predict(inputs, id=id, timeout=1)
                decision["expected"] = prediction.value
                if prediction.intervals:  # Absent until the model knows its errors.
                    decision["at_most"] = prediction.intervals[0].upper
                    decision["wait"] = decision["at_most"] <= WAIT
            except errors.InvalidArgument as error:
                raise Rejected(400, str(error))
            except errors.HindsightError as error:
                print(f"trip {id}: no forecast: {error}", file=sys.stderr)
            if id not in self.trips:  # The same request, come twice, may be faster.
                self.write(trip=id, inputs=inputs, decision=decision)
        return self.trips[id]["decision"]

    async def arrival(self, body: dict) -> dict:
        """Accepts a label. It is learned as soon as the server takes it."""
        id, delay = body["trip"], float(body["delay"])
        trip = self.trips.get(id)
        if trip is None:
            raise Rejected(404, f"trip {id} has not departed")
        if trip.get("delay", delay) != delay:
            raise Rejected(409, f"trip {id} has arrived {trip['delay']} late already, not {delay}")
        if "delay" not in trip:
            self.write(trip=id, delay=delay)
            self.arrived.put_nowait(id)
        return {}

    async def health(self, _: dict) -> dict:
        settled = sum("settled" in trip for trip in self.trips.values())
        return {"trips": len(self.trips), "settled": settled, "to_learn": sum("delay" in trip for trip in self.trips.values()) - settled}

    async def learn(self) -> None:
        """Takes every label to the server, for as long as it takes."""
        await self.insist(lambda: self.model.client.create(self.model.id, SPEC))
        while True:
            id = await self.arrived.get()
            await self.insist(lambda: self.observe(id))
            self.write(trip=id, settled=True)

    async def observe(self, id: str) -> None:
        trip = self.trips[id]
        try:
            await self.model.observe(id, trip["delay"])
        except errors.PredictionNotFound:  # The server was down at the departure, or has forgotten it.
            await self.model.observe(trip["inputs"], trip["delay"], id=id)

    async def insist(self, call) -> None:
        """Repeats a call until the server takes it, or finds its content wrong."""
        while True:
            try:
                return await call()
            except (errors.InvalidArgument, errors.AlreadyExists) as error:
                print(f"rejected: {error}", file=sys.stderr)  # In your service: tell somebody.
                return None
            except errors.HindsightError as error:
                print(f"again soon: {error}", file=sys.stderr)
                await asyncio.sleep(random.uniform(0, 2))

    async def http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request of HTTP, in place of your framework."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = re.search(r"(?i)\r\ncontent-length: *(\d+)", head)
            text = await reader.readexactly(int(length[1]) if length else 0)
            route = {"/departures": self.departure, "/arrivals": self.arrival, "/healthz": self.health}.get(head.split()[1])
            try:
                if route is None:
                    raise Rejected(404, "no such path")
                status, answer = 200, await route(json.loads(text or "{}"))
            except Rejected as rejected:
                status, answer = rejected.args[0], {"error": rejected.args[1]}
            except (KeyError, TypeError, ValueError) as wrong:
                status, answer = 400, {"error": repr(wrong)}
            content = json.dumps(answer).encode() + b"\n"
            writer.write(f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n".encode() + content)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # The caller is gone, and repeats the request.
        finally:
            writer.close()


async def main(address: str, journal: str, server: str) -> None:
    async with aio.connect(server) as client:
        service = Service(journal, client.model("connections"))
        host, port = address.rsplit(":", 1)
        listener = await asyncio.start_server(service.http, host, int(port))
        async with listener:
            print("serving", address, file=sys.stderr, flush=True)
            await service.learn()


asyncio.run(main(*sys.argv[1:]))
