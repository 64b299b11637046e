"""How log lines look: text, or one JSON object a line."""

import logging

import msgspec

from exporter.setup.settings import Settings


def begin(settings: Settings) -> None:
    """Set logging up, once."""
    logging.basicConfig(level=settings.log_level)
    form = _Json(settings.role) if settings.log_format == "json" else _text(settings.role)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(form)


def _text(role: str) -> logging.Formatter:
    return logging.Formatter(f"%(asctime)s %(levelname)s {role} %(message)s")


class _Json(logging.Formatter):
    def __init__(self, role: str) -> None:
        super().__init__(datefmt="%Y-%m-%dT%H:%M:%S%z")
        self._role = role

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": self.formatTime(record, self.datefmt),
            "level": record.levelname,
            "role": self._role,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(entry).decode()
