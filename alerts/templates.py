"""Templates that query Prometheus when an alert fires: which GPU, affected pods, what was done.

Alerts must keep their labels while pods and phases change, so whatever changes is here.
Label values reach a query through `%q`, so that a quote or a brace in a value stays a value.
"""

from collections.abc import Callable

from alerts.codes import of_recovery_actions
from alerts.identity import NODE
from exporter.model.readings import LOST_RECORDS as _LOST

SHOWN = 10
"""Most names in one text; longer lists end with the total."""

Ask = Callable[[str], str]
"""Turns a query into a pipeline."""

_CLAIM = "{{ $labels.dra_claim_namespace }}/{{ $labels.dra_claim_name }}"
_NOT_KNOWN = "unknown"


def queried(query: str, *labels: str) -> str:
    """Return a pipeline with the result of a query; `%q` stands for label values, in order."""
    values = " ".join(f"$labels.{label}" for label in labels)
    return f"printf `{query}` {values} | query"


def of_device(query: str) -> str:
    return queried(query.replace("HERE", "cluster=%[1]q,UUID=%[2]q"), "cluster", "UUID")


def of_node(query: str) -> str:
    """Query as `of_device`; OWN: also by the alert's own node, as the remediator names it."""
    own = query.replace("OWN", "cluster=%[1]q,UUID=%[2]q,node=%[3]q")
    return queried(own.replace("HERE", "cluster=%[1]q,UUID=%[2]q"), "cluster", "UUID", "node")


def of_anywhere(query: str) -> str:
    """Query as `of_node` for alerts that have no single node."""
    return of_device(query.replace("OWN", "HERE"))


def _of_remediator(family: str, ask: Ask, by: str, condition: str = "") -> str:
    """Return a query for a remediator's series of a device.

    A GPU that was put into another node may have an incident on either. The incident on the alert's
    own node counts, else another one, which is then shown with its node.
    """
    elsewhere = f"{family}{{HERE}} unless on (cluster, UUID) draguard_incident_phase{{OWN}}"
    return ask(f"max by ({by}) (({family}{{OWN}} or {elsewhere}){condition})")


def listed(pipeline: str, sort: str, item: str, none: str) -> str:
    """Return a list in one line. `item` may use `$one`, a sample of the result."""
    return (
        f'{{{{ $all := {pipeline} | sortByLabel "{sort}" }}}}'
        "{{ range $number, $one := $all }}"
        f"{{{{ if lt $number {SHOWN} }}}}{{{{ if $number }}}}, {{{{ end }}}}{item}{{{{ end }}}}"
        f"{{{{ else }}}}{none}{{{{ end }}}}"
        f"{{{{ if gt (len $all) {SHOWN} }}}} and others, {{{{ len $all }}}} in all{{{{ end }}}}"
    )


def _label(name: str) -> str:
    return f"{{{{ $one.Labels.{name} }}}}"


def sentence(name: str, pipeline: str, text: str) -> str:
    """Return a text about the first sample of a result, or nothing."""
    return (
        f"{{{{ with {pipeline} }}}}{{{{ with index . 0 }}}}"
        f"{{{{ ${name} := . }}}}{text}{{{{ end }}}}{{{{ end }}}}"
    )


def _or_before(shown: str, condition: str = "") -> str:
    """Return a query for a device's series, else for its values within the last day.

    A GPU whose exporter is gone keeps its last known values.
    """
    before = f"last_over_time({shown}[1d])"
    return f"{shown}{condition} or {before}{condition} unless on (cluster, UUID) {shown}"


GPU = (
    f"{{{{ with {of_device(_or_before('draguard_gpu_info{HERE}'))} }}}}{{{{ with index . 0 }}}}"
    '{{ .Labels.model_name }}, index {{ or .Labels.gpu "' + _NOT_KNOWN + '" }}, '
    "PCI {{ .Labels.pci_bus_id }}{{ end }}"
    f"{{{{ else }}}}{_NOT_KNOWN}: no exporter shows it{{{{ end }}}}, "
    "{{ $labels.UUID }} on node {{ $labels.node }}"
)
"""Model, index, PCI address, UUID and node, as far as known."""


def _aside(selector: str) -> str:
    """Return rows with the pod of the claim, also where a scrape without `honorLabels` moved it."""
    for label in ("pod", "namespace"):
        exported = f'"exported_{label}", "(?s)(.+)"'
        selector = f'label_replace({selector}, "{label}", "$1", {exported})'
    return selector


_HOLDERS = _aside('draguard_device_allocation_info{HERE,admin!="true"}')
_PODS = (
    "max by (dra_claim_namespace, dra_claim_name, pod_name) (draguard_incident_consumer_info{OWN} "
    f'or label_replace({_HOLDERS}, "pod_name", "$1", "pod", "(?s)(.+)") '
    "unless on (cluster, UUID) draguard_incident_info{OWN})"
)
"""Pods of the incident, also deleted ones. Without an incident, the pods that the exporter sees: on
a GPU with slices these are more than those in scope."""

_WATCHED = of_device("draguard_gpu_info{HERE} or draguard_incident_info{HERE}")


def _affected_pods(ask: Ask) -> str:
    return listed(
        ask(_PODS),
        "pod_name",
        "{{ with $one.Labels.dra_claim_name }}claim {{ $one.Labels.dra_claim_namespace }}/{{ . }}"
        "{{ if $one.Labels.pod_name }} of {{ end }}{{ end }}"
        "{{ with $one.Labels.pod_name }}pod {{ . }}{{ end }}",
        "{{ with " + _WATCHED + " }}none known to Draguard"
        "{{ else }}" + _NOT_KNOWN + ": no exporter shows the GPU{{ end }}",
    )


HIT = _affected_pods(of_node)
HIT_ANYWHERE = _affected_pods(of_anywhere)

_MODE = _of_remediator("draguard_incident_mode", of_node, "mode", " == 1")
_HELD = _of_remediator("draguard_incident_deferred", of_node, "reason", " == 1")
_NEEDS = _of_remediator("draguard_incident_needs", of_node, "needs", " == 1")
_INFO = _of_remediator("draguard_incident_info", of_node, "class, cause, scope")
_UNSERVED = queried("max(draguard_remediator_rules_served{cluster=%q}) == 0", "cluster")

WHY = (
    "{{ with " + _UNSERVED + " }}The API server does not serve DeviceTaintRules. {{ end }}"
    "{{ with " + _MODE + " }}The policy's mode is {{ (index . 0).Labels.mode }}. {{ end }}"
    "{{ with " + _HELD + " }}Deferred by "
    "{{ range $number, $one := . }}{{ if $number }} and {{ end }}{{ $one.Labels.reason }}{{ end }}."
    "{{ else }}Nothing is deferred.{{ end }}"
)
"""Why a device is not tainted, or not up to its class's ceiling."""


def _nothing(ask: Ask) -> str:
    """Return the text for no incident; if the remediator is down, taints may still be in place."""
    before = ask(
        "last_over_time(draguard_incident_phase{OWN}[1d]) "
        "unless on (cluster) draguard_remediator_build_info{cluster=%[1]q}"
    )
    return (
        f"{{{{ with {before} }}}}{{{{ with index . 0 }}}}Unknown: no remediator is scraped now. "
        "Incident {{ .Labels.incident }} was open at the last scrape.{{ end }}"
        "{{ else }}Nothing: this GPU has no incident.{{ end }}"
    )


_OF_ITS_NODE = " on node {{ .Labels.node }}"
_OF_ANOTHER = f"{{{{ if ne .Labels.node $labels.node }}}}{_OF_ITS_NODE}{{{{ end }}}}"


def _done(ask: Ask, where: str, why: str) -> str:
    """Return what Draguard did; `where`: node of the incident, `why`: why not more was done."""
    phase = _of_remediator("draguard_incident_phase", ask, "incident, node, phase", " == 1")
    rules = _of_remediator("draguard_incident_rules", ask, "effect", " > 0")
    return (
        f"{{{{ with {phase} }}}}{{{{ with index . 0 }}}}"
        f"Incident {{{{ .Labels.incident }}}}{where} is {{{{ .Labels.phase }}}}. {{{{ end }}}}"
        + "Taint rules: "
        + listed(rules, "effect", "{{ $one.Value }} " + _label("effect"), "none")
        + f".{why}"
        + f"{{{{ else }}}}{_nothing(ask)}{{{{ end }}}}"
    )


DONE = _done(of_node, _OF_ANOTHER, f" {WHY}")
"""What Draguard did, and why not more."""
DONE_BEFORE_WHY = _done(of_node, _OF_ANOTHER, "")
"""The same, for alerts whose description has the reason."""
DONE_ANYWHERE = _done(of_anywhere, _OF_ITS_NODE, "")

CAUSE = (
    "{{ with " + _INFO + " }}{{ with index . 0 }}"
    "a fault of class {{ .Labels.class }}, cause {{ .Labels.cause }}, scope {{ .Labels.scope }}"
    "{{ end }}{{ else }}a fault of unknown class{{ end }}"
)

UNCONFIRMED = (
    "{{ with "
    + _of_remediator("draguard_incident_unconfirmed", of_node, "reason", " == 1")
    + " }} ({{ (index . 0).Labels.reason }}){{ end }}"
)
"""Why no second source can confirm a fault."""

BLOCKED = (
    "{{ with "
    + _of_remediator("draguard_incident_eviction_blocked", of_node, "reason", " == 1")
    + " }} ({{ (index . 0).Labels.reason }}){{ end }}"
)
"""What blocks evictions."""

NEEDED = "{{ with " + _NEEDS + " }}It needs: {{ (index . 0).Labels.needs }}.{{ end }}"


CLAIMANTS = listed(
    of_device("max by (node) (node_uuid:draguard_gpu_up:min{HERE} == 1)"),
    "node",
    _label("node"),
    "none now",
)
"""Nodes on which a GPU answers."""
BOARD = (
    sentence("board", of_device("draguard_gpu_info{HERE}"), "{{ $board.Labels.model_name }}, ")
    + "{{ $labels.UUID }}"
)
"""Model and UUID only: index, address and node are in doubt."""

GONE = sentence(
    "gone",
    of_device(_or_before("draguard_gpu_up{HERE}", " == 0")),
    "{{ with $gone.Labels.reason }}, reason {{ . }}{{ end }}",
)


def xids(matcher: str) -> str:
    """Return which of these XIDs the GPU had, and when each was last seen."""
    shown = f"draguard_xid_last_seen_timestamp_seconds{{HERE,{matcher}}}"
    seen = f"max by (code, gi) ({_or_before(shown)})"
    item = (
        f"XID {_label('code')}"
        "{{ with $one.Labels.gi }} on MIG instance {{ . }}{{ end }}"
        " last seen at {{ $one.Value | humanizeTimestamp }}"
    )
    return listed(of_device(seen), "code", item, "no XID known")


UNSEEN = (
    "{{ if gt $value 300.0 }} This was {{ $value | humanizeDuration }} ago: no exporter reports "
    "node {{ $labels.node }} now.{{ end }}"
)
"""For alerts whose value is the age of the last reading."""

_ACTIONS = " else ".join(
    f"if eq .Value {value:.1f} }}}}{name}{{{{" for value, name in of_recovery_actions().items()
)
RECOVERY = (
    "{{ with " + of_device("max(draguard_gpu_recovery_action{HERE})") + " }}{{ with index . 0 }}"
    "recovery action {{ .Value }} ({{ "
    + _ACTIONS
    + " else }}newer than this version{{ end }}){{ end }}"
    "{{ else }}recovery action unknown{{ end }}"
)


def _at_node(family: str, matchers: str, by: str) -> str:
    """Query a family of a node by either name: the scrape's or the exporter's."""
    of_cluster = f"{family}{{cluster=%[1]q,{matchers}"
    named = _aside(f"{of_cluster},Hostname=%[2]q}} or {of_cluster},node=%[2]q}}")
    return queried(f"max by ({by}) ({named})", *NODE)


NODE_HIT = listed(
    _at_node("draguard_device_allocation_info", 'admin!="true",pod!=""', "namespace, pod"),
    "pod",
    f"pod {_label('namespace')}/{_label('pod')}",
    "none known to Draguard",
)

CLUSTER_HIT = (
    "{{ with " + queried("cluster:draguard_gpus:count{cluster=%q}", "cluster") + " }}"
    "All GPUs of the cluster: {{ (index . 0).Value }}"
    "{{ else }}All GPUs of the cluster{{ end }}"
)

_OF_CLAIM = "cluster=%q,dra_claim_namespace=%q,dra_claim_name=%q"
_CLAIM_LABELS = ("cluster", "dra_claim_namespace", "dra_claim_name")
CLAIM_GPUS = listed(
    queried(
        "max by (UUID, model_name, GPU_I_PROFILE, GPU_I_ID, Hostname) "
        f"(draguard_device_allocation_info{{{_OF_CLAIM}}})",
        *_CLAIM_LABELS,
    ),
    "UUID",
    "{{ with $one.Labels.GPU_I_PROFILE }}slice {{ . }} of {{ end }}"
    f"{_label('model_name')} {_label('UUID')} on node {_label('Hostname')}",
    "no device",
)
_CLAIM_HOLDERS = _aside(f"draguard_device_allocation_info{{{_OF_CLAIM}}}")
CLAIM_PODS = (
    "claim "
    + _CLAIM
    + ", used by "
    + listed(
        queried(f"max by (pod) ({_CLAIM_HOLDERS})", *_CLAIM_LABELS),
        "pod",
        f"pod {_label('pod')}",
        "no pod that is known",
    )
)

_SHOWN_BEFORE = " or ".join(
    f"last_over_time(draguard_gpu_info{{cluster=%[1]q,{label}=%[2]q}}[1d])"
    for label in ("Hostname", "node")
)
VANISHED = listed(
    queried(
        f"max by (model_name, UUID) (({_SHOWN_BEFORE}) "
        "unless on (cluster, UUID) draguard_gpu_info{cluster=%[1]q})",
        "cluster",
        "node",
    ),
    "UUID",
    f"{_label('model_name')} {_label('UUID')}",
    _NOT_KNOWN,
)
"""GPUs of a node that no exporter shows any more."""

LAST_SHOWN = listed(
    queried(
        "max by (model_name, UUID) (last_over_time(draguard_gpu_info{cluster=%q,node=%q}[1d]))",
        "cluster",
        "node",
    ),
    "UUID",
    f"{_label('model_name')} {_label('UUID')}",
    "unknown after a day",
)
"""GPUs of a node whose exporter is gone."""

MISSING = listed(
    queried("node_device:draguard_gpu_missing:max{cluster=%q,node=%q}", "cluster", "node"),
    "device",
    _label("device"),
    "none now",
)


SXIDS = listed(
    _at_node("draguard_sxid_last_seen_timestamp_seconds", 'fatal="true"', "code, pci_bus_id"),
    "code",
    f"SXid {_label('code')} of the switch at {_label('pci_bus_id')}, last seen at "
    "{{ $one.Value | humanizeTimestamp }}",
    "not seen now",
)

LOST_RECORDS = listed(
    queried(
        "max by (reason) ("
        + " or ".join(
            f"increase(draguard_kernel_log_rejected_total{{cluster=%[1]q,{label}=%[2]q,"
            f'reason=~"{"|".join(_LOST)}"}}[1h]) > 0'
            for label in ("node", "instance")
        )
        + ")",
        "cluster",
        "node",
    ),
    "reason",
    _label("reason"),
    _NOT_KNOWN,
)

SOURCE = sentence(
    "down",
    queried(
        "max by (reason) (draguard_source_up{cluster=%[1]q,source=%[2]q,node=%[3]q} == 0 "
        "or draguard_source_up{cluster=%[1]q,source=%[2]q,instance=%[3]q} == 0)",
        "cluster",
        "source",
        "node",
    ),
    "reason {{ $down.Labels.reason }}",
)
"""A source's series have the node only from the scrape: see `identity.named`."""

_SINCE = "draguard_claim_since_timestamp_seconds"
WAITING = (
    "{{ with $labels.dra_claim_name }}Claim {{ $labels.dra_claim_namespace }}/{{ . }}{{ else }}"
    "What a pod of namespace {{ $labels.dra_claim_namespace }} names or requests, and no claim "
    "exists for,{{ end }}"
)
WAITING_PODS = listed(
    queried(f"max by (pod_name, pod_claim) ({_SINCE}{{{_OF_CLAIM}}})", *_CLAIM_LABELS),
    "pod_name",
    "{{ with $one.Labels.pod_name }}pod {{ $labels.dra_claim_namespace }}/{{ . }}"
    "{{ with $one.Labels.pod_claim }} (its claim {{ . }}){{ end }}{{ else }}no pod{{ end }}",
    "no pod that is known",
)
"""The pod that has come farthest with a claim."""


def reasons_in(state: str) -> str:
    """Return why a claim is in a state, as `draguard why` calls it."""
    query = f'max by (reason) ({_SINCE}{{{_OF_CLAIM},state="{state}"}})'
    return "reason " + listed(
        queried(query, *_CLAIM_LABELS), "reason", _label("reason"), _NOT_KNOWN
    )


_OF_EXPLAINER = "max by (cluster) (draguard_explainer_{}_age_seconds{{cluster=%q}})"
BLIND_EXPLAINER = (
    "Untrusted collections: "
    + listed(
        queried(
            "max by (collection) (draguard_explainer_collection_untrusted{cluster=%q} == 1)",
            "cluster",
        ),
        "collection",
        _label("collection"),
        "none",
    )
    + ". "
    + "".join(
        sentence(
            name,
            queried(_OF_EXPLAINER.format(name), "cluster"),
            f"{text} {{{{ ${name}.Value | humanizeDuration }}}} old. ",
        )
        for name, text in (("look", "Last look:"), ("reason", "Oldest outdated reason:"))
    )
    + "What metrics and Events say of claims is old, or missing."
)
