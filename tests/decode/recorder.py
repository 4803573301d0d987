"""A TCP forwarder that keeps what passes, and writes it as a capture file.

The packets of the file are made up around the recorded bytes: capturing real ones would take
privileges, and NVMe/TCP begins above them.
"""
import socket
import struct
import threading
import time

SEGMENT_BYTES = 32 << 10


class Recorder:
    """Listens on a port of 127.0.0.1 and forwards every connection to another."""

    def __init__(self, port):
        self.to = port
        self.lock = threading.Lock()
        self.events = []  # (time, connection, from the client?, bytes)
        self.connections = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.threads = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.to))
            number, self.connections = self.connections, self.connections + 1
            for source, sink, outward in ((client, server, True), (server, client, False)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                thread = threading.Thread(target=self.forward, args=(number, source, sink, outward), daemon=True)
                thread.start()
                self.threads.append(thread)

    def forward(self, number, source, sink, outward):
        try:
            while data := source.recv(1 << 16):
                with self.lock:
                    self.events.append((time.time(), number, outward, data))
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def finish(self):
        """Waits until all connections are closed."""
        self.listener.close()
        for thread in self.threads:
            thread.join(30)

    def streams(self):
        """Each connection's bytes: (from the client, from the server)."""
        found = [(bytearray(), bytearray()) for _ in range(self.connections)]
        for _, number, outward, data in self.events:
            found[number][0 if outward else 1].extend(data)
        return found

    def write_capture(self, file):
        with open(file, "wb") as out:
            # pcap, microseconds, link type 101: packets begin with their IP header
            out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 101))
            sequence = {}

            def packet(at, number, outward, flags, data):
                ports = (20000 + number, self.to) if outward else (self.to, 20000 + number)
                mine, other = sequence[number][not outward], sequence[number][outward]
                sequence[number][not outward] = mine + len(data) + (1 if flags & 2 else 0)
                tcp = struct.pack(">HHIIBBHHH", *ports, mine, other if flags & 16 else 0, 5 << 4, flags, 65535, 0, 0)
                address = [bytes((127, 0, 0, 2)), bytes((127, 0, 0, 1))]
                source, sink = address if outward else address[::-1]
                ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp) + len(data), 0, 0x4000, 64, 6, 0, source, sink)
                frame = ip + tcp + data
                out.write(struct.pack("<IIII", int(at), int(at % 1 * 1e6), len(frame), len(frame)) + frame)

            for at, number, outward, data in self.events:
                if number not in sequence:
                    sequence[number] = [1000, 5000]
                    packet(at, number, True, 2, b"")
                    packet(at, number, False, 18, b"")
                    packet(at, number, True, 16, b"")
                for start in range(0, len(data), SEGMENT_BYTES):
                    packet(at, number, outward, 24, data[start:start + SEGMENT_BYTES])


def count_pdus(stream):
    """How many PDUs a direction of a connection has: each header says how long its PDU is."""
    count = at = 0
    while at + 8 <= len(stream):
        length = struct.unpack_from("<I", stream, at + 4)[0]
        if length < 8:
            raise ValueError(f"a PDU of {length} bytes at {at}")
        at += length
        count += 1
    if at != len(stream):
        raise ValueError(f"the stream ends {at - len(stream)} bytes before its last PDU does")
    return count
