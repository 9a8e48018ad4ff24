"""Orders come in through a Kafka producer, a Queen worker bills each in one transaction, and a Kafka consumer reads the
invoices: one node, the same queues, no connector, and no topic made beforehand.

    python bridge.py HTTP-URL KAFKA-HOST:PORT

Prints a line per check and exits 1 at the first that does not hold.
"""

import asyncio
import base64
import json
import sys
import time
import uuid

from confluent_kafka import Consumer, Producer
from queen import Queen

RUN = uuid.uuid4().hex[:8]
ORDERS, INVOICES, TOTALS = (f"bridge-{kind}-{RUN}" for kind in ("orders", "invoices", "totals"))
CUSTOMERS = ("alice", "bob", "carol")
EACH = 4
ALL = EACH * len(CUSTOMERS)
WANT_TOTAL = 1000 * EACH * (EACH + 1) // 2

checks = 0


def check(condition, what):
    global checks
    if not condition:
        raise AssertionError(what)
    checks += 1
    print(f"  ok: {what}")


def text(coded):
    return None if coded is None else base64.b64decode(coded).decode()


def produce(kafka):
    """The order service: any Kafka producer."""
    failures = []
    producer = Producer({"bootstrap.servers": kafka, "acks": "all"})
    for n in range(1, EACH + 1):
        for customer in CUSTOMERS:
            order = json.dumps({"customer": customer, "n": n, "cents": 1000 * n})
            producer.produce(ORDERS, order, customer, headers={"source": "shop"},
                             on_delivery=lambda e, _: failures.append(e) if e else None)
    if producer.flush(30) or failures:
        raise AssertionError(f"the producer kept some or failed: {failures}")


async def bill(queen):
    """The billing worker: ack, invoice and the customer's total in one transaction for each order."""
    billed = []

    async def handle(message):
        if not billed:
            print(f"  stored payload: {json.dumps(message['data'])}")
        record = message["data"]
        order = json.loads(text(record["v"]))
        invoice = {"invoice": f"INV-{order['customer']}-{order['n']}", **order}
        await (queen.transaction().ack(message, "completed", {"consumer_group": "billing"})
               .queue(INVOICES).partition(message["partition"]).push([{"data": invoice}])
               .kv.incr(TOTALS, order["customer"], delta=order["cents"], ttl_seconds=3600).commit())
        headers = {h["k"]: text(h["v"]) for h in record.get("h", [])}
        billed.append({"partition": int(message["partition"]), "key": text(record["k"]), "source": headers.get("source"), **order})

    await (queen.queue(ORDERS).group("billing").subscription_mode("all").auto_ack(False).each().limit(ALL)
           .timeout_millis(1000).idle_millis(10000).consume(handle))
    return billed


def read(kafka, consumer):
    """The analytics service: any Kafka consumer group."""
    got, deadline = [], time.monotonic() + 30
    while len(got) < ALL and time.monotonic() < deadline:
        m = consumer.poll(1)
        if m is not None and m.error() is None:
            got.append({"partition": m.partition(), "key": m.key(), **json.loads(m.value())})
    return got


async def main(url, kafka):
    queen = Queen(url)
    # The consumer subscribes to a topic that nobody made yet.
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": f"analytics-{RUN}", "auto.offset.reset": "earliest",
                         "allow.auto.create.topics": True, "topic.metadata.refresh.interval.ms": 1000})
    consumer.subscribe([INVOICES])
    consumer.poll(0)
    try:
        print("producing orders with a Kafka client")
        produce(kafka)
        print("billing with a Queen worker")
        billed = await bill(queen)
        for customer in CUSTOMERS:
            mine = [b for b in billed if b["customer"] == customer]
            check([b["n"] for b in mine] == list(range(1, EACH + 1)) and len({b["partition"] for b in mine}) == 1,
                  f"{customer}'s orders arrived in order from one partition")
        check(len(billed) == ALL and all(b["key"] == b["customer"] and b["source"] == "shop" for b in billed),
              f"billing saw all {ALL} orders with their key and header")
        print("reading invoices with a Kafka consumer")
        invoices = await asyncio.to_thread(read, kafka, consumer)
        check(len(invoices) == ALL, f"analytics read all {ALL} invoices (got {len(invoices)})")
        where = {(b["customer"], b["n"]): b["partition"] for b in billed}
        check(all(where[i["customer"], i["n"]] == i["partition"] and i["key"] is None for i in invoices),
              "each invoice is in the partition of its order")
        totals = await queen.kv.get_many(TOTALS, list(CUSTOMERS))
        check([int(r["value"]) for r in totals["rows"]] == [WANT_TOTAL] * len(CUSTOMERS),
              f"each customer's total is {WANT_TOTAL}, counted once per order")
        print(f"PASS: {checks} checks")
    finally:
        consumer.close()
        for q in (ORDERS, INVOICES):
            await queen.queue(q).delete()
        await queen.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
