"""What a policy is refused with."""


class PolicyError(ValueError):
    """The policy says something impossible; each problem names where, what, and what to write."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems
