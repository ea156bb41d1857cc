"""A peer in another language: pyzmq and msgpack, started by the tests beside this file.

    peer.py ROLE ENDPOINT VECTORS

connects to ENDPOINT, prints "ready" when it has, does what the function of its role says, prints
"ok" and exits with 0. Whatever is not as it should be ends it with a traceback. Every wait has an
end, and an alarm ends the process in any case.
"""

import csv
import json
import os
import signal
import sys

import msgpack
import zmq

TIMEOUT_MS = 30000
TOPIC_BYTES = 40
BATCH = b"batch".ljust(TOPIC_BYTES, b"\0")
MEGABYTE = 1 << 20


def say(text):
    print(text, flush=True)


def same(got, expected):
    if got != expected or type(got) is not type(expected):
        raise AssertionError(f"got {got!r:.200}, expected {expected!r:.200}")


def reading(number):
    """What both sides make of a number: a record as a map."""
    return {"sensor": f"sensor {number}", "celsius": number / 2, "tags": {"n": number, "é": None}}


def frame(topic, payload):
    return topic.ljust(TOPIC_BYTES, b"\0") + payload


def records_of(data):
    """The records of a frame, as the format has them: (topic, record)."""
    topic, payload = data[:TOPIC_BYTES], data[TOPIC_BYTES:]
    if topic == BATCH:
        return [(b"", record) for record in msgpack.unpackb(payload)]
    return [(topic.rstrip(b"\0"), payload)]


def push(socket):
    """PUSH: dicts, as maps."""
    for number in range(1000):
        socket.send(msgpack.packb(reading(number)))


def pull(socket):
    """PULL: the same dicts from the other side."""
    for number in range(1000):
        same(msgpack.unpackb(socket.recv()), reading(number))


def req(socket):
    """REQ: asks for doubles, and waits for each."""
    for number in range(100):
        socket.send(msgpack.packb({"n": number}))
        same(msgpack.unpackb(socket.recv()), {"n": 2 * number})


def rep(socket):
    """REP: the same from the other side."""
    for number in range(100):
        question = msgpack.unpackb(socket.recv())
        same(question, {"n": number})
        socket.send(msgpack.packb({"n": 2 * number}))


def echo(socket):
    """DEALER: sends back every message, whole, until an empty one."""
    while True:
        parts = socket.recv_multipart()
        socket.send_multipart(parts)
        if parts == [b""]:
            return


def trees(socket):
    """DEALER: values of every type, which come back the same."""
    values = [
        None, True, False, 0, 127, 128, -1, -33, 2**31, 2**63, 2**64 - 1, -(2**63), 0.5, 1e300,
        "", "text", "é" * 1000, b"", b"\0\xff" * 5000, [], list(range(1000)), {},
        {"a": [1, {"b": b"c"}], "d": {"e": {"f": [None, -0.25]}}}, "x" * MEGABYTE,
        msgpack.Timestamp(1700000000, 999999999), msgpack.ExtType(5, b"extension"),
    ]
    for value in values:
        socket.send(msgpack.packb(value))
        same(msgpack.unpackb(socket.recv()), value)


def large(socket):
    """DEALER: 1 MiB there and back, alone and in parts."""
    block = bytes(range(256)) * (MEGABYTE // 256)
    for parts in ([block], [b"head", block, b"", block[1:]], [block[7:]] * 8):
        socket.send_multipart(parts)
        same(socket.recv_multipart(), parts)


def await_subscription(socket):
    if not socket.recv().startswith(b"\1"):
        raise AssertionError("not a subscription")


def pub(socket):
    """XPUB: records alone and in batches, 1,000 numbers."""
    await_subscription(socket)
    await_subscription(socket)
    number = 0
    while number < 1000:
        count = number % 7 + 1
        records = [msgpack.packb(n) for n in range(number, min(number + count, 1000))]
        if len(records) == 1:
            socket.send(frame(b"number", records[0]))
        else:
            socket.send(frame(b"batch", msgpack.packb(records)))
        number += len(records)


def pub_parts(socket):
    """XPUB: topics and records as parts of their own, as most publishers send them."""
    await_subscription(socket)
    await_subscription(socket)
    for number in range(1000):
        socket.send_multipart([b"number", msgpack.packb(number)])


def pub_vectors(socket, vectors):
    """XPUB: all frames of the vectors; says first how many records the original makes of them."""
    await_subscription(socket)
    await_subscription(socket)
    with open(os.path.join(vectors, "pubsub.tsv"), encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    say(sum(len(json.loads(row[4])) for row in rows))
    for row in rows:
        socket.send(bytes.fromhex(row[2]))


def sub(socket):
    """SUB: 1,000 numbers, however they were put together."""
    number = 0
    while number < 1000:
        for topic, record in records_of(socket.recv()):
            same(msgpack.unpackb(record), number)
            if topic not in (b"", b"number"):
                raise AssertionError(f"topic {topic!r}")
            number += 1


# A further role is a function here and a line in this table.
ROLES = {
    "push": (push, zmq.PUSH),
    "pull": (pull, zmq.PULL),
    "req": (req, zmq.REQ),
    "rep": (rep, zmq.REP),
    "echo": (echo, zmq.DEALER),
    "trees": (trees, zmq.DEALER),
    "large": (large, zmq.DEALER),
    "pub": (pub, zmq.XPUB),
    "pub_parts": (pub_parts, zmq.XPUB),
    "pub_vectors": (pub_vectors, zmq.XPUB),
    "sub": (sub, zmq.SUB),
}


def main():
    role, endpoint, vectors = sys.argv[1:]
    function, kind = ROLES[role]
    signal.alarm(2 * TIMEOUT_MS // 1000)
    with zmq.Context() as context, context.socket(kind) as socket:
        socket.setsockopt(zmq.LINGER, TIMEOUT_MS)
        socket.setsockopt(zmq.RCVTIMEO, TIMEOUT_MS)
        socket.setsockopt(zmq.SNDTIMEO, TIMEOUT_MS)
        if kind == zmq.SUB:
            socket.setsockopt(zmq.SUBSCRIBE, b"")
        if kind == zmq.XPUB:
            socket.setsockopt(zmq.XPUB_NODROP, 1)
            socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        socket.connect(endpoint)
        say("ready")
        if function is pub_vectors:
            function(socket, vectors)
        else:
            function(socket)
    say("ok")


main()
