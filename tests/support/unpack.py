"""The other end of test_packed_python.c: a plain ZeroMQ socket and a streaming unpacker.

    unpack.py ENDPOINT COUNT

connects a PAIR socket, reads frames until COUNT records have come, checks them and sends them back,
many in a frame, as any program may that has an unpacker and a packer. Exits with 77 where a module
is missing.
"""

import sys

try:
    import msgpack
    import zmq
except ImportError:
    sys.exit(77)


def main():
    if len(sys.argv) == 1:
        return 0
    endpoint, count = sys.argv[1], int(sys.argv[2])
    context = zmq.Context()
    socket = context.socket(zmq.PAIR)
    socket.linger = 10000
    socket.rcvtimeo = 60000
    socket.connect(endpoint)
    unpacker = msgpack.Unpacker(raw=False)
    records = []
    while len(records) < count:
        unpacker.feed(socket.recv())
        records.extend(unpacker)
    for number, record in enumerate(records):
        text = "t" * (number % 300)
        if record != ["stream_chunk", str(number), text, {}]:
            print("record", number, "is", record, file=sys.stderr)
            return 1
    for start in range(0, count, 100):
        socket.send(b"".join(msgpack.packb(record) for record in records[start : start + 100]))
    socket.recv()  # the word that all has come
    context.destroy()
    return 0


if __name__ == "__main__":
    sys.exit(main())
