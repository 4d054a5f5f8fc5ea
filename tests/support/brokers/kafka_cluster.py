"""A program: librdkafka's mock cluster, which other processes reach over TCP, and which obeys a line at a time.

    python kafka_cluster.py PORT

At this port of the loopback: `servers`, `down`, `up`, `create TOPIC PARTITIONS`, `error TOPIC CODE`, `fail REQUEST CODE
TIMES`, `slow MILLISECONDS`. confluent-kafka has no functions for most of that, but the librdkafka inside it does.
"""

import ctypes
import socketserver
import sys

import confluent_kafka.cimpl

BROKERS = 2


def main(port: int) -> None:
    library = ctypes.CDLL(confluent_kafka.cimpl.__file__)  # what it was linked with is found through it
    for name in ("rd_kafka_new", "rd_kafka_conf_new", "rd_kafka_mock_cluster_new"):
        getattr(library, name).restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    error = ctypes.create_string_buffer(512)
    handle = library.rd_kafka_new(0, ctypes.c_void_p(library.rd_kafka_conf_new()), error, len(error))
    assert handle, error.value
    cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(ctypes.c_void_p(handle), BROKERS))
    brokers = range(1, BROKERS + 1)
    library.rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, 10)  # not 3 s, for others that might join

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            words = self.rfile.readline().decode().split()
            self.wfile.write(f"{obey(*words)}\n".encode())

    def obey(what: str, *words: str) -> str | int:
        match what:
            case "servers":
                return str(library.rd_kafka_mock_cluster_bootstraps(cluster).decode())
            case "down":
                return sum(int(library.rd_kafka_mock_broker_set_down(cluster, broker)) for broker in brokers)
            case "up":
                return sum(int(library.rd_kafka_mock_broker_set_up(cluster, broker)) for broker in brokers)
            case "create":
                return int(library.rd_kafka_mock_topic_create(cluster, words[0].encode(), int(words[1]), BROKERS))
            case "error":
                library.rd_kafka_mock_topic_set_error(cluster, words[0].encode(), int(words[1]))
                return 0
            case "fail":
                request, code, times = map(int, words)
                library.rd_kafka_mock_push_request_errors(
                    cluster, ctypes.c_int16(request), ctypes.c_size_t(times), *[ctypes.c_int(code)] * times
                )
                return 0
            case "slow":
                (rtt,) = map(int, words)
                return sum(int(library.rd_kafka_mock_broker_set_rtt(cluster, broker, rtt)) for broker in brokers)
        raise ValueError(what)

    socketserver.TCPServer.allow_reuse_address = True
    with socketserver.TCPServer(("127.0.0.1", port), Handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]))
