"""The error of a policy that is refused."""


class PolicyError(ValueError):
    """A policy is not valid; each problem says where, what is wrong, and what to write."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems
