"""Which labels a series carries: dcgm-exporter's, few or all, and those of pods."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.join.claims import Holder
from exporter.metrics import fields, labels
from exporter.metrics.labels import Options
from exporter.metrics.render import page
from exporter.metrics.snapshot import Snapshot
from exporter.model.readings import ClaimDevice
from tests.exporter.metrics.pages import held, holder, rendered, shown, snapshot
from tests.exporter.worlds import gpu, part, seen

TEMP = "DCGM_FI_DEV_GPU_TEMP,gauge,x"
USED = "DCGM_FI_DEV_FB_USED,gauge,x"
DRIVER = "DCGM_FI_DRIVER_VERSION,label,x"
PRODUCT = "NVIDIA H100 80GB HBM3"
FULL = Holder(
    namespace="team",
    pod="train-0",
    container="main",
    dra=ClaimDevice("train-0-gpu", "team", "gpu.nvidia.com", "node-a", "gpu-0", share_id="s-1"),
    pod_uid="pod-uid",
    claim_uid="claim-uid",
    request="main/sub",
    device_class="gpu.nvidia.com",
    pod_group="gang",
    profile="1g.10gb",
)
PART = part(3, uuid="MIG-1", fb_used=1 << 20)


def of_gpu(*owners: Holder, **options: object) -> dict[str, str]:
    chosen = Options(**options)  # pyright: ignore[reportArgumentType] - each test names real ones
    what = snapshot(
        seen(gpu(1, product=PRODUCT, values={150: 1})),
        shown=shown(TEMP, DRIVER, options=chosen),
        holders=held(GPU_1=owners),
    )
    ((found, _value),) = rendered(what)["DCGM_FI_DEV_GPU_TEMP"]
    return found


def of_slice(*owners: Holder, **options: object) -> dict[str, str]:
    chosen = Options(**options)  # pyright: ignore[reportArgumentType] - each test names real ones
    what = snapshot(
        seen(gpu(1, product=PRODUCT, mig=True, instances=(PART,))),
        shown=shown(USED, options=chosen),
        holders=held(MIG_1=owners),
    )
    ((found, _value),) = rendered(what)["DCGM_FI_DEV_FB_USED"]
    return found


def test_drop_in_has_the_five_labels_of_dra_and_two_more_on_mig() -> None:
    whole = of_gpu(FULL)
    assert {name for name in whole if name.startswith("dra_")} == {
        "dra_claim_name",
        "dra_claim_namespace",
        "dra_driver_name",
        "dra_pool_name",
        "dra_device_name",
    }
    assert "pod_uid" not in whole
    part = of_slice(FULL)
    assert (part["dra_mig_profile"], part["dra_mig_device_uuid"]) == ("1g.10gb", "MIG-1")
    assert part["UUID"] == "GPU-1"


def test_lean_has_what_tells_devices_apart_and_nothing_else() -> None:
    assert of_gpu(FULL, preset="lean") == {"gpu": "0", "UUID": "GPU-1", "Hostname": "node-a"}
    assert set(of_slice(FULL, preset="lean")) == {
        "gpu",
        "UUID",
        "GPU_I_PROFILE",
        "GPU_I_ID",
        "Hostname",
    }


def test_full_has_all_that_is_known_of_the_owner() -> None:
    found = of_gpu(FULL, preset="full")
    assert {
        "dra_claim_uid": "claim-uid",
        "dra_request_name": "main/sub",
        "dra_device_class": "gpu.nvidia.com",
        "dra_share_id": "s-1",
        "pod_uid": "pod-uid",
        "pod_group": "gang",
    }.items() <= found.items()


def test_options_change_one_thing_each() -> None:
    assert of_gpu(FULL, pod_uid=True)["pod_uid"] == "pod-uid"
    assert of_gpu(hostname_label="hostname")["hostname"] == "node-a"
    none = of_gpu(hostname_label="none")
    assert "Hostname" not in none
    assert "hostname" not in none
    assert of_gpu(replace_blanks=True)["modelName"] == "NVIDIA-H100-80GB-HBM3"
    assert of_gpu(holder(dra=None, replica="3"))["vgpu"] == "3"


def test_the_old_namespace_renames_uuid_and_pod_labels() -> None:
    found = of_gpu(FULL, old_namespace=True)
    assert found["uuid"] == "GPU-1"
    assert (found["pod_name"], found["pod_namespace"], found["container_name"]) == (
        "train-0",
        "team",
        "main",
    )
    assert not {"UUID", "pod", "namespace", "container"} & set(found)


def test_the_same_options_rename_our_own_families_so_that_joins_hold() -> None:
    what = snapshot(
        seen(gpu(1, values={150: 1})),
        shown=shown(TEMP, options=Options(old_namespace=True, hostname_label="hostname")),
        holders=held(GPU_1=(FULL,)),
    )
    found = rendered(what)
    ((up, _),) = found["draguard_gpu_up"]
    assert (up["uuid"], up["hostname"]) == ("GPU-1", "node-a")
    ((row, _),) = found["draguard_device_allocation_info"]
    assert (row["uuid"], row["pod_name"]) == ("GPU-1", "train-0")


def test_owners_who_disagree_leave_the_label_to_the_info_rows() -> None:
    found = of_gpu(holder("a"), holder("b"))
    assert found["namespace"] == "team"
    assert "pod" not in found


def test_who_only_looks_on_owns_no_series() -> None:
    watcher = holder("monitor", admin=True)
    assert of_gpu(holder("a", admin=False), watcher)["pod"] == "a"
    assert "pod" not in of_gpu(watcher)


# --- labels of pods


def pod(*pairs: tuple[str, str]) -> dict[str, str]:
    found = of_gpu(holder(pod_labels=pairs))
    usual = of_gpu(holder())
    return {name: value for name, value in found.items() if name not in usual}


def test_pod_labels_ride_under_names_that_prometheus_allows() -> None:
    assert pod(("app.kubernetes.io/name", "x"), ("0day", "y")) == {
        "app_kubernetes_io_name": "x",
        "_0day": "y",
    }


def test_pod_labels_that_come_out_as_one_name_are_distinguished_by_number() -> None:
    assert pod(("a-b", "1"), ("a.b", "2"), ("a_c", "3")) == {
        "label_a_b_conflict1": "1",
        "label_a_b_conflict2": "2",
        "a_c": "3",
    }


def test_a_pod_label_never_hides_a_label_of_the_page() -> None:
    found = of_gpu(holder(pod_labels=(("UUID", "x"), ("pod", "y"), ("__name__", "z"))))
    assert (found["UUID"], found["pod"]) == ("GPU-1", "train-0")
    assert (found["label_UUID"], found["label_pod"], found["label___name__"]) == ("x", "y", "z")


def test_pod_labels_on_which_owners_disagree_do_not_ride() -> None:
    found = of_gpu(
        holder("a", pod_labels=(("app", "x"), ("team", "t"))),
        holder("b", pod_labels=(("app", "y"), ("team", "t"))),
    )
    assert "app" not in found
    assert found["team"] == "t"


def left_out(what: Snapshot) -> dict[str, float]:
    found = rendered(what)["draguard_pod_labels_left_out"]
    return {named["limit"]: count for named, count in found}


def test_labels_beyond_the_limit_of_their_pod_are_counted_once_per_pod() -> None:
    cut = holder("a", labels_left_out=7)
    other = holder("b", labels_left_out=2)
    what = snapshot(seen(gpu(1), gpu(2)), holders=held(GPU_1=(cut,), GPU_2=(cut, other)))

    assert left_out(what) == {"pod": 9, "page": 0}
    assert left_out(snapshot(seen(gpu(1)))) == {"pod": 0, "page": 0}


FIELDS = [field for field in fields.table().values() if field.type == "int"]
SIXTY_FOUR = tuple((f"key-{n:02d}", "v" * 58) for n in range(64))


def crowded(rows: int, **options: int) -> bytes:
    """Return the page of 16 GPUs with so many fields; each has a pod with 4 KiB of labels."""
    values = {field.id: 1 for field in FIELDS[:rows]}
    gpus = [
        msgspec.structs.replace(gpu(1, values=values), uuid=f"GPU-{n}", index=n) for n in range(16)
    ]
    what = snapshot(
        seen(*gpus),
        shown=shown(*(f"{field.name},gauge,x" for field in FIELDS[:rows]), **options),
        holders=held(
            **{f"GPU_{n}": (holder(f"train-{n}", pod_labels=SIXTY_FOUR),) for n in range(16)}
        ),
    )
    return page(what).text


def test_labels_of_all_pods_together_take_a_bounded_part_of_a_page() -> None:
    assert b'left_out{limit="page"} 0' in crowded(20)

    text = crowded(400)

    # Without labels of pods each series has some 300 bytes.
    assert len(text) < labels.PAGE_POD_LABEL_BYTES + 16 * 400 * 600
    assert b'left_out{limit="page"} 0' not in text
    lines = [line for line in text.splitlines() if line.startswith(FIELDS[0].name.encode())]
    counts = {line.count(b"key_") for line in lines}
    # An equal part for each: of none there are fewer because another one has more.
    assert len(lines) == 16
    assert len(counts) == 1
    assert 0 < counts.pop() < 64
    assert all(b'key_00="' in line for line in lines)


def test_a_cap_on_series_leaves_room_for_labels() -> None:
    assert b'left_out{limit="page"} 0' in crowded(400, max_series=4000)


_KEYS = st.text(st.sampled_from("aA0_-./é"), min_size=1, max_size=5)


@given(st.dictionaries(_KEYS, st.text(max_size=3), max_size=6))
def test_any_pod_labels_give_each_name_once_and_none_of_ours(pairs: dict[str, str]) -> None:
    owner = holder(pod_labels=tuple(sorted(pairs.items())))
    shown_pairs, left_out = labels.pod_pairs(Options(), (owner,), 10_000)
    found = [name for name, _ in shown_pairs]
    assert left_out == 0
    assert len(found) == len(set(found)) == len(pairs)
    assert not set(found) & labels.RESERVED


def test_a_label_on_which_two_of_three_owners_agree_does_not_ride() -> None:
    three = [Holder(namespace="team", pod=pod, container="main") for pod in ("a", "b", "a")]

    assert labels.agreed(three).keys() & {"pod", "namespace"} == {"namespace"}
