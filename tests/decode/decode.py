"""What tshark, an independent reader of NVMe/TCP, makes of captured traffic."""
import collections
import shutil
import subprocess

# Base names of the PDU types of the NVMe/TCP Transport Specification, 3.6.
TYPES = {0: "ICReq", 1: "ICResp", 2: "H2CTermReq", 3: "C2HTermReq", 4: "CapsuleCmd", 5: "CapsuleResp",
         6: "H2CData", 7: "C2HData", 9: "R2T"}


class Undecodable(Exception):
    """tshark is missing, or found what should not be there."""


def check(file, ports):
    """Decodes a capture; counts PDUs by type, and refuses malformed ones and bad digests."""
    if not shutil.which("tshark"):
        raise Undecodable("tshark is missing: install the package tshark")
    fields = ["frame.number", "nvme-tcp.type", "nvme-tcp.hdgst.status", "nvme-tcp.ddgst.status", "_ws.malformed"]
    command = ["tshark", "-r", file, "-Y", "nvme-tcp or _ws.malformed", "-T", "fields", "-E", "occurrence=a",
               "-o", "nvme-tcp.check_hdgst:TRUE", "-o", "nvme-tcp.check_ddgst:TRUE",
               "-o", "tcp.desegment_tcp_streams:TRUE", "-o", "tcp.reassemble_out_of_order:TRUE"]
    for port in ports:
        command += ["-d", f"tcp.port=={port},nvme-tcp"]
    for field in fields:
        command += ["-e", field]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise Undecodable(f"tshark ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    types, digests = collections.Counter(), collections.Counter()
    for line in done.stdout.splitlines():
        frame, kinds, headers, data, malformed = (line.split("\t") + [""] * 5)[:5]
        if malformed:
            raise Undecodable(f"frame {frame} of {file} is malformed")
        for kind in filter(None, kinds.split(",")):
            types[TYPES.get(int(kind, 0), kind)] += 1
        for name, states in (("header", headers), ("data", data)):
            for state in filter(None, states.split(",")):
                # 0 bad, 1 good, 2 not looked at
                digests[f"{name}_{ {0: 'bad', 1: 'good'}.get(int(state, 0), 'unverified')}"] += 1
    if not types:
        raise Undecodable(f"no NVMe/TCP in {file}")
    for name in ("header_bad", "data_bad"):
        if digests[name]:
            raise Undecodable(f"{digests[name]} digests are wrong ({name}) in {file}")
    return {"pdus": sum(types.values()), "types": dict(types), "digests": dict(digests), "malformed": 0}
