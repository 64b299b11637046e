"""What happens to a fleet while its servers die: to its hardware, its drivers, its pods, by users.

One table of acts; each comes in turn, in an order that a seed chooses.
"""

import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial

from kubeapi import clock
from kubeapi.client import ApiError, NotFound
from tests.chain.breaking import BREAKING, GPUS, Fleet, insistently, is_sick
from tests.chain.scene import INCIDENTS
from tests.lab.cluster import Json

PODS = "/api/v1/namespaces/default/pods"
TRAIN, TOLERANT = "train", "tolerant"
"""Deployments; the pods of the second tolerate NoExecute."""
STAYS = "example.com/stays"
"""A finalizer: the pod that has it never ends."""
LOOKS = 20
"""How often a user looks for an incident, a tenth of a second apart."""
PATIENCE = 90.0
"""Seconds until a user confirms the repair of a board that is gone. A minute after a boot it would
be called missing, and another machine be called for its sake."""
Act = Callable[[str, int], None]


class Acts:
    """Each act is for a node and one of its GPUs, and does what it can there."""

    def __init__(self, fleet: Fleet, policy: str, dice: random.Random, *, is_long: bool) -> None:
        self._fleet = fleet
        self._scene = fleet.scene
        self._player = fleet.scene.cluster.player
        self._client = fleet.scene.cluster.client
        self._policy = policy
        self._dice = dice
        # One that dies as an exemption ends leaves a leader that evicts no pod for five minutes.
        self._is_long = is_long
        self._bag: list[Act] = []
        self._gone: dict[str, float] = {}
        """By incident, when its board was first found to be nowhere."""
        self._confirmed: set[str] = set()
        self.patience = PATIENCE
        self.made: Counter[str] = Counter()

    def do_one(self) -> None:
        table: dict[Act, int] = {
            self.gpu_breaks_or_is_repaired: 5,
            self.names_are_swapped: 2,
            self.driver_starts_anew: 1,
            self.driver_cannot_start: 1,
            self.second_driver_comes_or_goes: 1,
            self.node_registers_again: 1,
            self.node_is_another_machine: 1,
            self.board_is_replaced: 1,
            self.board_moves_to_another_node: 1,
            self.pod_never_ends: 1,
            self.tolerant_pod_is_hit: 1,
            self.user_ignores: 1,
            self.policy_exempts_for_a_while: int(self._is_long),
        }
        if not self._bag:
            self._bag = [act for act, times in table.items() for _ in range(times)]
            self._dice.shuffle(self._bag)
        act = self._bag.pop()
        self.made[act.__name__] += 1
        act(self._dice.choice(BREAKING), self._dice.randrange(GPUS))

    def go_on(self) -> None:
        """Let agents report, and users confirm the repair of boards that are gone for long."""
        self._fleet.report()
        with suppress(ApiError):
            for incident in self._scene.open_incidents():
                name, uuid = incident["metadata"]["name"], incident["spec"]["uuid"]
                if self._fleet.has(uuid):
                    continue
                since = self._gone.setdefault(name, time.monotonic())
                if time.monotonic() >= since + self.patience and name not in self._confirmed:
                    self._intend(name, "repairConfirmed", "another board is in")
                    self._confirmed.add(name)

    def end(self) -> None:
        """Repair everything, and let go whatever holds on to it."""
        fleet = self._fleet
        for node in BREAKING:
            for index, board in enumerate(fleet.gpus[node]):
                if is_sick(board):
                    fleet.repair(node, index)
            fleet.twinned.discard(node)
            fleet.publish(node)
        self._free()

    def gpu_breaks_or_is_repaired(self, node: str, index: int) -> None:
        fleet = self._fleet
        board = fleet.gpus[node][index]
        worsens = board.uuid in fleet.ignored or self._dice.random() < 0.3
        if not is_sick(board):
            self._dice.choice((fleet.lose, fleet.want_a_reset))(node, index)
        elif board.presence != "Lost" and worsens:
            fleet.lose(node, index)
        else:
            fleet.repair(node, index)

    def names_are_swapped(self, node: str, index: int) -> None:
        """Two GPUs exchange their names, as when a driver starts: it starts with none lost."""
        if self._fleet.any_lost(node):
            self.gpu_breaks_or_is_repaired(node, index)
            return
        self._fleet.swap_names(node)
        self._start_driver(node)

    def driver_starts_anew(self, node: str, _index: int) -> None:
        """Its slices are deleted until the next report, or the repair of a GPU that is lost."""
        self._fleet.away.add(node)
        self._fleet.publish(node)
        self._fleet.write(node)

    def driver_cannot_start(self, node: str, index: int) -> None:
        """A GPU is lost; the other one may fail while nothing is published."""
        if not self._fleet.any_lost(node):
            self._fleet.lose(node, index)
        self.driver_starts_anew(node, index)
        other = 1 - index
        if not is_sick(self._fleet.gpus[node][other]) and self._dice.random() < 0.7:
            time.sleep(self._dice.uniform(0.0, 1.0))
            self._dice.choice((self._fleet.lose, self._fleet.want_a_reset))(node, other)

    def second_driver_comes_or_goes(self, node: str, index: int) -> None:
        """The GPUs of a node, of which one is broken, are published in another pool besides."""
        fleet = self._fleet
        if node not in fleet.twinned and not is_sick(fleet.gpus[node][index]):
            self._dice.choice((fleet.lose, fleet.want_a_reset))(node, index)
            time.sleep(self._dice.uniform(0.0, 3.0))
        fleet.twinned ^= {node}
        fleet.publish(node)

    def node_registers_again(self, node: str, _index: int) -> None:
        """Its Node is deleted, and made again by the same kubelet: nothing else changes."""
        self._delete_node(node)
        time.sleep(self._dice.uniform(0.0, 1.5))
        insistently(lambda: self._player.add_node(node))
        self._fleet.publish(node)

    def node_is_another_machine(self, node: str, _index: int) -> None:
        """Its Node is deleted; one with its name boots, with the same boards or with others.

        Those may be in the slots of the ones before.
        """
        self._delete_node(node)
        self._end_pods(node)
        time.sleep(self._dice.uniform(0.0, 1.5))
        boards = self._dice.choice(("the same", "others", "others elsewhere"))
        for index in range(GPUS) if boards != "the same" else ():
            self._fleet.replace_board(node, index, slot=boards == "others elsewhere")
        self._fleet.boot(node)
        self._fleet.away.discard(node)
        insistently(lambda: self._player.add_node(node))
        self._start_driver(node)

    def board_is_replaced(self, node: str, index: int) -> None:
        """By one in another slot of the running machine."""
        self._fleet.replace_board(node, index, slot=True)
        self._start_driver(node)

    def board_moves_to_another_node(self, node: str, index: int) -> None:
        """Two nodes exchange boards; both drivers start, so none may be lost."""
        others = [name for name in BREAKING if name != node and not self._fleet.any_lost(name)]
        if self._fleet.any_lost(node) or not others:
            self.gpu_breaks_or_is_repaired(node, index)
            return
        other = self._dice.choice(others)
        self._fleet.exchange_boards((node, index), (other, self._dice.randrange(GPUS)))
        for name in (node, other):
            self._start_driver(name)

    def pod_never_ends(self, node: str, index: int) -> None:
        """A pod gets a finalizer, and its GPU breaks; or all that hang may end."""
        if self._dice.random() < 0.3:
            self._free()
            return
        device = f"{node}/gpu-{self._fleet.gpus[node][index].minor}"
        holders = insistently(lambda: self._scene.holders(TRAIN))
        for pod in self._pods():
            if holders.get(pod["metadata"]["uid"]) == device:
                self._finalize(pod, [STAYS])
        if not is_sick(self._fleet.gpus[node][index]):
            self._fleet.lose(node, index)

    def tolerant_pod_is_hit(self, _node: str, _index: int) -> None:
        """The GPU of the pod that tolerates NoExecute breaks."""
        held = set(insistently(lambda: self._scene.holders(TOLERANT)).values())
        for node in BREAKING:
            for index, board in enumerate(self._fleet.gpus[node]):
                if f"{node}/gpu-{board.minor}" in held and not is_sick(board):
                    self._fleet.lose(node, index)

    def user_ignores(self, node: str, index: int) -> None:
        """A user ignores a GPU without end, once it has an incident; a worse fault comes later."""
        fleet = self._fleet
        for where, boards in fleet.gpus.items():
            for number, known in enumerate(boards):
                if known.uuid in fleet.ignored and is_sick(known):
                    fleet.lose(where, number)
                    return
        board = fleet.gpus[node][index]
        if board.presence == "Lost":
            fleet.repair(node, index)
            return
        if not is_sick(board):
            fleet.want_a_reset(node, index)
        for _ in range(LOOKS):
            for incident in insistently(self._scene.open_incidents):
                seen = incident.get("status", {}).get("fault", {}).get("class")
                if incident["spec"]["uuid"] == board.uuid and seen == "gpu":
                    fleet.ignored.add(board.uuid)
                    fleet.note()
                    self._intend(incident["metadata"]["name"], "ignore", "a test board")
                    return
            time.sleep(0.1)

    def policy_exempts_for_a_while(self, node: str, index: int) -> None:
        """The file exempts a GPU that is broken, until a moment."""
        fleet = self._fleet
        if not is_sick(fleet.gpus[node][index]):
            self._dice.choice((fleet.lose, fleet.want_a_reset))(node, index)
        until = clock.now() + timedelta(seconds=self._dice.randrange(3, 9))
        fleet.exempt[fleet.gpus[node][index].uuid] = until.replace(microsecond=0)
        fleet.note()
        spared = "".join(
            f"\n- {{devices: {uuid}, why: burn-in, until: {end:%Y-%m-%dT%H:%M:%SZ}}}"
            for uuid, end in fleet.exempt.items()
        )
        self._scene.policy(f"{self._policy}exempt:{spared}\n")

    def _start_driver(self, node: str) -> None:
        if self._fleet.any_lost(node):
            self._fleet.away.add(node)
        self._fleet.publish(node)
        self._fleet.write(node)

    def _intend(self, incident: str, field: str, reason: str) -> None:
        body = {"spec": {field: {"by": "admin", "reason": reason}}}
        insistently(lambda: self._client.merge_patch(f"{INCIDENTS}/{incident}", body))

    def _pods(self) -> list[Json]:
        return insistently(self._scene.cluster.pods)

    def _delete_node(self, node: str) -> None:
        insistently(lambda: self._player.remove_node(node))
        # Or the garbage collector deletes them once the next ones are there.
        insistently(lambda: self._player.publish(node, []))

    def _free(self) -> None:
        """Let all pods end that hang."""
        for pod in self._pods():
            if STAYS in pod["metadata"].get("finalizers", ()):
                self._finalize(pod, None)

    def _finalize(self, pod: Json, finalizers: list[str] | None) -> None:
        body = {"metadata": {"finalizers": finalizers}}
        self._unless_gone(lambda: self._client.merge_patch(_path(pod), body))

    def _end_pods(self, node: str) -> None:
        """End the pods of a machine that was switched off."""
        at_once = {"gracePeriodSeconds": 0}
        for pod in self._pods():
            if pod["spec"].get("nodeName") == node:
                self._finalize(pod, None)
                self._unless_gone(partial(self._client.delete, _path(pod), at_once))

    @staticmethod
    def _unless_gone(act: Callable[[], object]) -> None:
        def done() -> None:
            with suppress(NotFound):
                act()

        insistently(done)


def _path(pod: Json) -> str:
    return f"{PODS}/{pod['metadata']['name']}"
