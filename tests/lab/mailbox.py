"""A mail server on loopback that keeps what it is sent."""

import socketserver
from email import message_from_bytes
from email.message import Message
from email.policy import default

from tests.lab.served import Served


class Mailbox(Served):
    """Takes every mail; ends with the block."""

    def __init__(self) -> None:
        taken = self.taken = list[Message]()
        """Oldest first."""

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self._say("220 here")
                for line in iter(self.rfile.readline, b""):
                    command = line[:4].upper()
                    if command == b"DATA":
                        self._say("354 go on")
                        taken.append(message_from_bytes(self._mail(), policy=default))
                    self._say("221 bye" if command == b"QUIT" else "250 ok")
                    if command == b"QUIT":
                        return

            def _mail(self) -> bytes:
                lines = iter(self.rfile.readline, b".\r\n")
                return b"".join(line.removeprefix(b".") for line in lines)

            def _say(self, text: str) -> None:
                self.wfile.write(f"{text}\r\n".encode())

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.port}"
