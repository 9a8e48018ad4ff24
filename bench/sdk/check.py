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


async def keys(queen):
    ns, kv = "sdk-" + RUN, queen.kv
    r = await kv.put(ns, "a", {"x": None}, ttl_seconds=60)
    expect(r["applied"] is True and r["version"] > 0, "put", r)
    r = await kv.get(ns, "a")
    expect(r["found"] is True and r["value"] == {"x": None}, "get", r)
    r = await kv.put_if_absent(ns, "a", 1, forever=True)
    expect(r["applied"] is False and r["reason"] == "exists", "putIfAbsent", r)
    for want in (1, 2, 2):
        r = await kv.incr(ns, "n", delta=1, max=2, forever=True)
        expect(r["value"] == want, "incr", r)
    expect(r["applied"] is False and r["reason"] == "limit", "incr at its bound", r)
    for i in range(30):
        await kv.put(ns, f"p/{i:02}", i, forever=True)
    rows = await kv.list_all(ns, "p/", limit=7)
    expect([row["value"] for row in rows] == list(range(30)), "pages of a prefix", rows)
    r = await kv.get_many(ns, ["a", "none"])
    expect(r["missing"] == ["none"] and r["rows"][0]["key"] == "a", "getMany", r)
    r = await kv.delete(ns, "none")
    expect(r["applied"] is False and r["reason"] == "absent", "delete", r)


async def locks(queen):
    name_ = "sdk-" + RUN
    first, second = (queen.lock(name_, ttl_seconds=30, auto_renew=False) for _ in range(2))
    expect(await first.acquire() is True and await second.acquire() is False, "one holder")
    token = first.token
    expect(await first.renew() is True and first.token > token, "renew", first.token)
    r = await queen.transaction().guard(first).queue(name("locks")).push([{"data": 1}]).commit()
    expect(r["success"] is True, "a guarded step", r)
    expect(await first.release() is True and await second.acquire() is True, "handed on")
    permits = [queen.semaphore(name_ + "s", 3, ttl_seconds=30, auto_renew=False) for _ in range(5)]
    got = await asyncio.gather(*(p.acquire() for p in permits))
    expect(sum(got) == 3, "three permits", got)
    await second.release()


async def timers(queen):
    q = name("timers")
    r = await queen.timers.schedule(q, "k/1", {"n": 9}, delay_ms=300, txn="remind")
    expect(r["ok"] is True and r["status"] == "scheduled", "schedule", r)
    peek = await queen.timers.peek(q, "k/1")
    expect(peek["found"] is True and peek["txn"] == "remind", "peek", peek)
    r2 = await queen.timers.schedule(q, "k/2", 1, delay_ms=3_600_000)
    rows = await queen.timers.list_all(q)
    expect([row["timerKey"] for row in rows] == ["k/1", "k/2"], "list", rows)
    r2 = await queen.timers.cancel(q, "k/2", txn="t")
    expect(r2["status"] == "cancelled", "cancel", r2)
    r2 = await queen.timers.cancel(q, "k/2", txn="t")
    expect(r2["status"] == "absent" and r2["ok"] is False and r2["txn"] == "t", "cancel of nothing", r2)
    got = await queen.queue(q).group("g").subscription_mode("all").wait(True).timeout_millis(5000).pop()
    expect(len(got) == 1 and got[0]["data"] == {"n": 9}, "fired", got)
    expect(got[0]["transactionId"] == "remind" and got[0]["id"] == r["messageId"], "ids told before", (r, got))


async def transactions(queen):
    q, out, ns = name("steps"), name("out"), "sdk-" + RUN
    await queen.queue(q).partition("p").push([{"data": i} for i in range(3)])
    got = await queen.queue(q).partition("p").batch(3).wait(False).pop()
    step = lambda m: (queen.transaction().ack(m).queue(out).partition("p").push([{"data": m["data"]}])  # noqa: E731
                      .kv.incr(ns, "steps", delta=1, forever=True))
    r = await step(got[0]).commit()
    expect(r["success"] is True and len(r["results"]) == 3, "commit", r)
    stale = dict(got[1], leaseId=str(uuid.uuid4()))
    try:
        r = await step(stale).commit()
        expect(False, "a stale lease commits", r)
    except Exception as e:
        expect("lease" in str(e), "the refusal names the lease", repr(e))
    r = await queen.transaction().once(ns, "gate", ttl_seconds=60).commit()
    expect(r["success"] is True, "once", r)
    r = await queen.transaction().once(ns, "gate", ttl_seconds=60).commit()
    expect(r["success"] is False and r["reason"] == "kv_precondition", "twice", r)
    expect((await queen.kv.get(ns, "steps"))["value"] == 1, "the counter counted once")
    expect(len(await queen.queue(out).partition("p").batch(9).wait(False).pop()) == 1, "one message out")


async def ephemeral(queen):
    q, inbox, e = name("eph"), name("inbox"), queen.ephemeral
    await e.push(q, [{"n": i} for i in range(3)], partition="r")
    got = (await e.pop(q, batch=10))["messages"]
    expect([m["payload"]["n"] for m in got] == [0, 1, 2] and got[0]["attempts"] == 0, "pop", got)
    await e.ack(q, got)
    expect((await e.depth(q))["pending"] == 0, "depth")

    async def responder():
        request = (await e.pop(q, wait=True, timeout=5000, auto_ack=True))["messages"][0]
        await e.push(request["payload"]["replyTo"], [{"pong": True}])

    task = asyncio.create_task(responder())
    await e.push(q, [{"replyTo": inbox}])
    reply = (await e.pop(inbox, wait=True, timeout=5000, auto_ack=True))["messages"]
    await task
    expect(reply and reply[0]["payload"] == {"pong": True}, "reply", reply)


async def streams(queen):
    from queen.streams import Stream
    source, sink = name("source"), name("sink")
    await queen.queue(source).partition("p").push([{"data": {"v": i}} for i in range(20)])
    stream = Stream.from_(queen.queue(source)).map(lambda m: {"v": m["data"]["v"] * 2} if "data" in m else {"v": m["v"] * 2})
    runner = await stream.to(queen.queue(sink)).run(name("query"), URL, subscription_mode="all")
    got = []
    for _ in range(50):
        got += await queen.queue(sink).partition("p").batch(50).wait(True).timeout_millis(200).pop()
        if len(got) >= 20:
            break
    await runner.stop()
    expect(sorted(m["data"]["v"] for m in got)[:3] == [0, 2, 4] and len(got) == 20, "the sink holds each once", got)


async def traces(queen):
    q = name("traces")
    await queen.queue(q).push([{"data": 1}])

    async def handle(message):
        await message["trace"]({"traceName": "sdk", "data": {"step": 1}})

    await queen.queue(q).group("g").subscription_mode("all").each().limit(1).timeout_millis(500).consume(handle)


CHECKS = (keys, locks, timers, transactions, ephemeral, streams, traces, configure, push_and_pop, long_poll, consume, subscription, reads, buffered, administration)


async def main(url):
    for check in CHECKS:
        async with Queen(url) as queen:
            await check(queen)
        print(f"ok {check.__name__}", flush=True)


if __name__ == "__main__":
    URL = sys.argv[1]
    asyncio.run(main(URL))
