"""Installations that people have: settings of the chart, each as `--set` takes them."""

from collections.abc import Mapping

MONITORED = (
    "monitoring.serviceMonitor.enabled=true",
    "monitoring.labels.release=kube-prometheus-stack",
)
POOLS = (
    "exporter.pools[0].name=h100",
    r"exporter.pools[0].nodeSelector.kubernetes\.io/arch=amd64",
    "exporter.pools[1].name=gb200",
    r"exporter.pools[1].nodeSelector.kubernetes\.io/arch=arm64",
    "exporter.pools[1].gpu.access=driver-root",
    "exporter.pools[1].gpu.libraryDir={usr/lib/aarch64-linux-gnu,usr/lib64}",
    "exporter.pools[1].resources.agent.requests.cpu=1",
    "exporter.pools[1].resources.agent.limits.memory=1Gi",
)
_ZONE = "topology.kubernetes.io/zone"
EXTENDED = (
    *("exporter.sensor.extraEnv[0].name=HTTPS_PROXY", "exporter.sensor.extraEnv[0].value=a"),
    *("exporter.agent.extraEnv[0].name=TZ", "exporter.agent.extraEnv[0].value=UTC"),
    *("exporter.extraVolumes[0].name=extra", "exporter.extraVolumes[0].configMap.name=e"),
    "exporter.sensor.extraVolumeMounts[0].name=extra",
    "exporter.sensor.extraVolumeMounts[0].mountPath=/extra",
    "exporter.sensor.extraVolumeMounts[0].readOnly=true",
    "exporter.agent.extraVolumeMounts[0].name=extra",
    "exporter.agent.extraVolumeMounts[0].mountPath=/more",
    "exporter.podSecurityContext.supplementalGroups={7}",
    "exporter.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
    ".topologyKey=kubernetes.io/hostname",
    "exporter.serviceAccount.annotations.who=exporter",
    "exporter.revisionHistoryLimit=3",
    *("remediator.extraEnv[0].name=HTTPS_PROXY", "remediator.extraEnv[0].value=b"),
    *("remediator.extraVolumes[0].name=extra", "remediator.extraVolumes[0].emptyDir.medium=Memory"),
    "remediator.extraVolumeMounts[0].name=extra",
    "remediator.extraVolumeMounts[0].mountPath=/extra",
    "remediator.podSecurityContext.supplementalGroups={8}",
    "remediator.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight=1",
    "remediator.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
    f".podAffinityTerm.topologyKey={_ZONE}",
    "remediator.awayFromGpus=required",
    "remediator.topologySpreadConstraints[0].maxSkew=2",
    f"remediator.topologySpreadConstraints[0].topologyKey={_ZONE}",
    "remediator.topologySpreadConstraints[0].whenUnsatisfiable=DoNotSchedule",
    "remediator.serviceAccount.annotations.who=remediator",
    "remediator.revisionHistoryLimit=4",
    *("explainer.extraEnv[0].name=HTTPS_PROXY", "explainer.extraEnv[0].value=c"),
    *("explainer.extraVolumes[0].name=extra", "explainer.extraVolumes[0].emptyDir.medium=Memory"),
    "explainer.extraVolumeMounts[0].name=extra",
    "explainer.extraVolumeMounts[0].mountPath=/extra",
    "explainer.podSecurityContext.supplementalGroups={9}",
    "explainer.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    f".nodeSelectorTerms[0].matchExpressions[0].key={_ZONE}",
    "explainer.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    ".nodeSelectorTerms[0].matchExpressions[0].operator=Exists",
    "explainer.topologySpreadConstraints[0].maxSkew=2",
    f"explainer.topologySpreadConstraints[0].topologyKey={_ZONE}",
    "explainer.topologySpreadConstraints[0].whenUnsatisfiable=DoNotSchedule",
    "explainer.tolerations[0].operator=Exists",
    "explainer.priorityClassName=system-cluster-critical",
    "explainer.podAnnotations.note=explainer",
    "explainer.serviceAccount.annotations.who=explainer",
    "explainer.revisionHistoryLimit=5",
    "commonAnnotations.owner=gpu",
)
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "as shipped": (),
    "metrics only": ("metricsOnly=true",),
    "a namespace of its own making": ("namespace.create=true",),
    "no remediator": ("remediator.enabled=false",),
    "no exporter": ("exporter.enabled=false",),
    "no explainer": ("explainer.enabled=false",),
    "explainer alone": ("exporter.enabled=false", "remediator.enabled=false"),
    "one replica": ("remediator.replicas=1",),
    "two explainers": ("explainer.replicas=2",),
    "explainer without Events": ("explainer.events=false", "explainer.eventAfter=600"),
    "nvidia is the default runtime": ("exporter.gpu.runtimeClassName=",),
    "a DRA driver without nvidia's runtime": (
        "exporter.gpu.access=driver-root",
        "exporter.gpu.driverRoot=/run/nvidia/driver",
        "exporter.gpu.libraryDir=/usr/lib64",
    ),
    "the device of the kernel's log": ("exporter.kernelLog=kmsg",),
    "the kernel's log by syslog(2)": ("exporter.kernelLog=syslog",),
    "the journal of systemd": (
        "exporter.kernelLog=journal",
        "exporter.journalPath=/run/log/journal",
    ),
    "shares of pods": ("exporter.podShares=true", "exporter.podLogsPath=/data/pods"),
    "another kubelet": ("exporter.kubeletPath=/data/kubelet/",),
    "SELinux": ("exporter.seLinuxOptions.type=spc_t",),
    "DCGM's host engine": (
        "exporter.dcgm.mode=hostEngine",
        "exporter.dcgm.address=nvidia-dcgm.gpu-operator:5555",
        "exporter.dcgm.libraryHostPath=/usr/lib/x86_64-linux-gnu",
        "exporter.extraCapabilities={SYS_ADMIN}",
    ),
    "DCGM inside": ("exporter.dcgm.mode=embedded", "exporter.dcgm.libraryHostPath=/opt/dcgm"),
    "pods' labels": (
        "exporter.podLabels.enabled=true",
        "exporter.podLabels.allow={team,app.*}",
        "exporter.podUid=true",
    ),
    "rows of its own": (r"exporter.counters=DCGM_FI_DEV_GPU_TEMP\, gauge\, Temperature.",),
    "as dcgm-exporter 4.8.3": (
        "exporter.hostnameLabel=hostname",
        "exporter.devices=g:0+i:1",
        "exporter.interval=5",
        "exporter.maxSeries=2000000",
    ),
    "TLS": (
        "exporter.web.configSecret=draguard-web",
        "exporter.web.scheme=HTTPS",
        "exporter.web.scrape.tlsConfig.insecureSkipVerify=true",
        "exporter.web.scrape.basicAuth.username.name=scrape",
        "exporter.web.scrape.basicAuth.username.key=user",
        "remediator.web.configSecret=draguard-remediator-web",
        "remediator.web.key=web.yaml",
        "remediator.web.scheme=HTTPS",
        "remediator.web.scrape.tlsConfig.insecureSkipVerify=true",
        "explainer.web.configSecret=draguard-explainer-web",
        "explainer.web.scheme=HTTPS",
        "explainer.web.scrape.tlsConfig.insecureSkipVerify=true",
    ),
    "more flags": (
        "exporter.extraArgs={--lost-after=120}",
        "remediator.extraArgs={--kube-server=https://192.0.2.1}",
        "explainer.extraArgs={--kube-server=https://192.0.2.1}",
    ),
    "a handed over node": (
        "remediator.nodeConditions.enabled=true",
        "remediator.nodeConditions.deadline=1000000",
        "remediator.nodeConditions.acceleratedHardwareReady=true",
    ),
    "pods that may be deleted": ("remediator.deletePods=true",),
    "a policy kept elsewhere": ("remediator.policy.existingConfigMap=gpu-policy",),
    "ServiceMonitors": MONITORED,
    "PodMonitors": ("monitoring.podMonitor.enabled=true",),
    "dashboards": (
        "dashboards.enabled=true",
        "dashboards.namespace=monitoring",
        "dashboards.grafanaOperator.enabled=true",
    ),
    "rules": (
        "monitoring.rules.enabled=true",
        "monitoring.rules.runbookBaseUrl=https://wiki.example.org/runbooks/",
        "monitoring.rules.dashboardBaseUrl=https://grafana.example.org/g",
    ),
    "closed": ("networkPolicy.enabled=true", "networkPolicy.egress.enabled=true"),
    "pools": POOLS,
    "extension points": EXTENDED,
    "watchers' claims": ("admission.adminAccessNamespaces={gpu-operator}",),
    "drivers of GPUs": ("gpuDrivers={gpu.nvidia.com,gpu.example.com}",),
    "one of several clusters": ("clusterName=east-1", "monitoring.serviceMonitor.enabled=true"),
    **{
        stack: (f"stack={stack}",)
        for stack in ("gpucluster", "driver-only", "gke", "eks", "eks-auto", "aks")
    },
    "no guards": (
        "admission.enabled=false",
        "userRoles.create=false",
        "cleanupOnDelete.enabled=false",
    ),
    "user-roles": (
        "userRoles.viewers[0].kind=Group",
        "userRoles.viewers[0].name=ml",
        "userRoles.operators[0].kind=User",
        "userRoles.operators[0].name=ana@example.org",
        "userRoles.operators[1].kind=ServiceAccount",
        "userRoles.operators[1].name=bot",
        "userRoles.operators[1].namespace=chat",
    ),
    "labels of the house": ("extraLabels.team=gpu", "exporter.extraPodLabels.team=gpu"),
    "CRDs from elsewhere": ("crds.install=false",),
    "pinned images": (
        f"image.exporter.digest=sha256:{'a' * 64}",
        "image.registry=registry.example.org:5000/gpu/",
        "image.pullSecrets={registry}",
    ),
}
EVERYTHING = tuple(
    flag
    for name in (
        "pods' labels",
        "a handed over node",
        "ServiceMonitors",
        "dashboards",
        "rules",
        "closed",
    )
    for flag in SETTINGS[name]
)
"""All that goes together, for what must still fit."""
