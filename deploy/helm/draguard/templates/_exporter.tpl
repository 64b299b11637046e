{{- /*
The flags of sensor and agent: both get all of them, and each takes what it needs,
so that the two can never mean different things.
*/}}
{{- define "draguard.exporterArgs" -}}
{{- with .Values.exporter -}}
- --listen=:9400
- --sensor-socket=/run/draguard/sensor.sock
- --release-file=/host/run/draguard/release
{{- if or (not .config) (ne (float64 .interval) 30.0) }}
- --interval={{ .interval }}
{{- end }}
- --labels={{ .labels }}
- {{ printf "--devices=%s" .devices | quote }}
- --hostname-label={{ .hostnameLabel }}
- --max-series={{ int .maxSeries }}
- --{{ .podShares | ternary "" "no-" }}processes
{{- if .podShares }}
- --pod-log-dir=/host/pods
{{- end }}
{{- if .counters }}
- --collectors=/etc/draguard/counters/counters.csv
{{- end }}
{{- if .config }}
- --config-file=/etc/draguard/config/config.yaml
{{- end }}
{{- if .podLabels.enabled }}
- --pod-labels
{{- with .podLabels.allow }}
- {{ printf "--pod-label-allow=%s" (join "," .) | quote }}
{{- end }}
{{- end }}
{{- if .podUid }}
- --pod-uid
{{- end }}
{{- with .nvidiaResourceNames }}
- {{ printf "--nvidia-resource-names=%s" (join "," .) | quote }}
{{- end }}
{{- if eq .dcgm.mode "hostEngine" }}
- {{ printf "--dcgm=%s" .dcgm.address | quote }}
{{- else }}
- --dcgm={{ .dcgm.mode }}
{{- end }}
{{- if and (ne .dcgm.mode "off") .dcgm.libraryHostPath }}
- --dcgm-library-dir=/host/dcgm
{{- end }}
{{- if eq .gpu.access "driver-root" }}
- {{ include "draguard.libraryDirFlag" .gpu.libraryDir | quote }}
{{- end }}
{{- if eq .kernelLog "journal" }}
- --kernel-log=/host/journal
{{- else if eq .kernelLog "auto" }}
- --journal-dirs=/host/var/log/journal,/host/run/log/journal
{{- else }}
- --kernel-log=/dev/kmsg
{{- end }}
{{- if .web.configSecret }}
- {{ printf "--web-config=/etc/draguard/web/%s" .web.key | quote }}
- --health-listen=:9402
{{- end }}
- {{ printf "--gpu-drivers=%s" (join "," $.Values.gpuDrivers) | quote }}
- {{ printf "--lease-namespace=%s" $.Release.Namespace | quote }}
{{- if not (include "draguard.reports" $) }}
- --no-report
{{- end }}
- --log-level={{ .logLevel }}
- --log-format={{ .logFormat }}
{{- range .extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Where the driver's library is searched, below the mounted driver root; takes a name or a list. */}}
{{- define "draguard.libraryDirFlag" -}}
{{- $folders := list }}
{{- range kindIs "slice" . | ternary . (list .) }}
{{- $folders = append $folders (printf "/host/driver/%s" (trimPrefix "/" .)) }}
{{- end }}
{{- printf "--nvml-library-dir=%s" (join "," $folders) }}
{{- end }}

{{- /* true where the sensor can see its GPUs, or the kernel's log, as a privileged container only. */}}
{{- define "draguard.sensorPrivileged" -}}
{{- with .Values.exporter }}
{{- if or (eq .gpu.access "driver-root") (eq .kernelLog "kmsg") }}true{{ end }}
{{- end }}
{{- end }}

{{- /* Capabilities of an unprivileged sensor as a JSON list, from the values of an exporter. */}}
{{- define "draguard.sensorCapabilities" -}}
{{- concat (ternary (list "SYSLOG") list (has .kernelLog (list "auto" "syslog"))) .extraCapabilities | uniq | toJson }}
{{- end }}

{{- define "draguard.sensorSecurity" -}}
runAsUser: 0
runAsGroup: 0
readOnlyRootFilesystem: true
{{- if include "draguard.sensorPrivileged" . }}
privileged: true
{{- else }}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
  {{- with include "draguard.sensorCapabilities" .Values.exporter | fromJsonArray }}
  add:
    {{- range . }}
    - {{ . }}
    {{- end }}
  {{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}
{{- end }}
