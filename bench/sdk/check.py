"""Drives a running node through the unmodified Python SDK of Queen 2.x (package queen-mq) and checks what it sees.

    python check.py http://127.0.0.1:6632

Every check works on queues of its own name, so that it can run against a node that holds other data. It exits 1 at the
first difference. What the node answers with 501 is not called here.
"""

import asyncio
import sys
import time
import uuid

from queen import Queen

RUN = uuid.uuid4().hex[:8]


def expect(condition, what, seen=None):
    if not condition:
        raise AssertionError(f"{what}: {seen!r}")


def name(kind):
    return f"sdk-{kind}-{RUN}"


async def configure(queen):
    q = name("configure")
    options = {"leaseTime": 77, "retryLimit": 5, "dedupWindowSeconds": 60, "encryptionEnabled": True}
    answer = await queen.queue(q).namespace("ns").task("t").config(options).create()
    expect(answer.get("configured") is True, "configured", answer)
    for key, value in options.items():
        expect(answer["options"][key] == value, f"option {key}", answer)
    answer = await queen.queue(q).delete()
    expect(answer.get("deleted") is True, "deleted", answer)
    answer = await queen.queue(q).delete()
    expect(answer.get("deleted") is False, "deleted twice", answer)


async def push_and_pop(queen):
    q = name("pop")
    items = [{"data": {"n": i}, "transactionId": f"t{i}"} for i in range(5)]
    answer = await queen.queue(q).partition("a b").push(items)
    expect([r["status"] for r in answer] == ["queued"] * 5, "queued", answer)
    answer = await queen.queue(q).partition("a b").push(items[:1])
    expect(answer[0]["status"] == "duplicate" and answer[0]["offset"] == 0, "duplicate", answer)
    for payload in (None, {}, [], "text", 2**53 - 1, {"big": "x" * 2_000_000}):
        p = uuid.uuid4().hex
        await queen.queue(q).partition(p).push([{"data": payload}])
        got = await queen.queue(q).partition(p).wait(False).pop()
        expect(len(got) == 1 and got[0]["data"] == payload, "payload", str(got)[:200])
    got = await queen.queue(q).partition("a b").batch(3).wait(False).pop()
    expect([m["data"]["n"] for m in got] == [0, 1, 2], "order and batch", got)
    expect(got[0]["partition"] == "a b" and got[0]["offset"] == 0, "place", got[0])
    answer = await queen.ack(got, True)
    expect(answer.get("success") is not False, "ack", answer)
    got = await queen.queue(q).partition("a b").batch(10).wait(False).pop()
    expect([m["data"]["n"] for m in got] == [3, 4], "after the ack", got)
    answer = await queen.ack(got[0], False, {"error": "later"})
    got = await queen.queue(q).partition("a b").batch(10).wait(False).pop()
    expect([m["data"]["n"] for m in got] == [3, 4] and got[0]["deliveryAttempt"] == 2, "after the nack", got)
    answer = await queen.renew(got[0])
    expect(answer["success"] is True and answer["newExpiresAt"], "renew", answer)
    await queen.queue(q).delete()


async def long_poll(queen):
    q = name("poll")
    began = time.monotonic()
    got = await queen.queue(q).group("g").wait(True).timeout_millis(1000).pop()
    expect(got == [] and time.monotonic() - began > 0.9, "empty long poll", time.monotonic() - began)
    waiting = asyncio.create_task(queen.queue(q).group("g").wait(True).timeout_millis(20000).pop())
    await asyncio.sleep(0.3)
    await queen.queue(q).push([{"data": 1}])
    began = time.monotonic()
    got = await waiting
    expect(len(got) == 1 and time.monotonic() - began < 2, "woken by a push", got)


async def consume(queen):
    q, seen = name("consume"), []
    await queen.queue(q).config({"retryLimit": 1}).create()
    await queen.queue(q).partition("p").push([{"data": i} for i in range(10)])

    async def handle(message):
        seen.append((message["data"], message["deliveryAttempt"]))
        if message["data"] == 4:
            raise RuntimeError("poison")

    await (queen.queue(q).group("workers").subscription_mode("all").batch(10).each().limit(12).idle_millis(3000)
           .timeout_millis(500).consume(handle))
    done = {n for n, _ in seen}
    expect(done == set(range(10)), "everything consumed", seen)
    expect(sum(1 for n, _ in seen if n == 4) == 2, "one retry of the poison", seen)
    letters = await queen.queue(q).dlq("workers").get()
    expect(letters["total"] == 1 and letters["messages"][0]["data"] == 4, "dead letter", letters)
    expect("poison" in letters["messages"][0]["errorMessage"], "reason", letters)


async def subscription(queen):
    q = name("subscription")
    await queen.queue(q).push([{"data": "old"}])
    got = await queen.queue(q).group("new").wait(False).pop()
    expect(got == [], "a new group skips the backlog", got)
    await queen.queue(q).partition("born later").push([{"data": "new"}])
    got = await queen.queue(q).group("new").wait(False).pop()
    expect([m["data"] for m in got] == ["new"], "and takes what follows", got)
    got = await queen.queue(q).group("all").subscription_mode("from_beginning").partitions(2).wait(False).pop()
    expect(sorted(m["data"] for m in got) == ["new", "old"], "all", got)
    await queen.admin.seek_consumer_group("all", q, {"timestamp": "1970-01-01T00:00:00Z"})
    got = await queen.queue(q).group("all").partitions(2).wait(False).pop()
    expect(len(got) == 2, "after a seek", got)
    await queen.delete_consumer_group("all")
    got = await queen.queue(q).group("all").subscription_mode("all").partitions(2).wait(False).pop()
    expect(len(got) == 2, "after the group was deleted", got)


async def reads(queen):
    q = name("reads")
    await queen.queue(q).partition("p").push([{"data": i} for i in range(3)])
    got = (await queen.queue(q).fetch(["p"]))["p"]
    expect([r["payload"] for r in got["records"]] == [0, 1, 2] and got["highWatermark"] == 3, "fetch", got)
    changed = await queen.queue(q).changed_since()
    expect([p["name"] for p in changed["partitions"]] == ["p"], "changed", changed)
    expect(isinstance(changed["safeTime"], str), "safeTime", changed)


async def buffered(queen):
    q = name("buffered")
    for i in range(250):
        await queen.queue(q).buffer({"message_count": 100, "time_millis": 200}).push([{"data": i}])
    await queen.flush_all_buffers()
    got = await queen.queue(q).batch(1000).wait(False).pop()
    expect([m["data"] for m in got] == list(range(250)), "buffered push", len(got))


async def administration(queen):
    q = name("admin")
    await queen.queue(q).partition("p").push([{"data": 1, "transactionId": "t"}])
    got = await queen.queue(q).group("g").subscription_mode("all").wait(False).pop()
    a = queen.admin
    expect(any(r["name"] == q for r in (await a.list_queues())["queues"]), "queues", q)
    expect((await a.get_queue(q))["options"]["leaseTime"] == 60, "queue", q)
    depth = await a.get_queue_depth(q, "g")
    expect(depth["pending"] == 1 and depth["processing"] == 1, "depth", depth)
    detail = await a.get_message(got[0]["partitionId"], "t")
    expect(detail["status"] == "processing" and detail["consumerGroups"][0]["name"] == "g", "detail", detail)
    for answer in (a.get_overview(), a.get_namespaces(), a.get_tasks(), a.get_partitions(), a.health(), a.metrics(),
                   a.list_consumer_groups(), a.get_consumer_group("g"), a.get_lagging_consumers(60),
                   a.list_messages(queue=q)):
        expect((await answer) is not None, "an answer", answer)


CHECKS = (configure, push_and_pop, long_poll, consume, subscription, reads, buffered, administration)


async def main(url):
    for check in CHECKS:
        async with Queen(url) as queen:
            await check(queen)
        print(f"ok {check.__name__}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
