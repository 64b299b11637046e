{{- /*
The flags of sensor and agent: both get all of them, and each takes what it needs,
so that the two can never mean different things.
*/}}
{{- define "draguard.exporterArgs" -}}
{{- with .Values.exporter -}}
- --listen=0.0.0.0:9400
- --sensor-socket=/run/draguard/sensor.sock
- --release-file=/host/run/draguard/release
- --interval={{ .interval }}
- --labels={{ .labels }}
- --devices={{ .devices }}
- --hostname-label={{ .hostnameLabel }}
- --max-series={{ int .maxSeries }}
- --{{ .processes | ternary "" "no-" }}processes
{{- if .counters }}
- --collectors=/etc/draguard/counters/counters.csv
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
- --nvidia-resource-names={{ join "," . }}
{{- end }}
{{- if eq .dcgm.mode "hostEngine" }}
- --dcgm={{ .dcgm.address }}
{{- else }}
- --dcgm={{ .dcgm.mode }}
{{- end }}
{{- if and (ne .dcgm.mode "off") .dcgm.libraryHostPath }}
- --dcgm-library-dir=/host/dcgm
{{- end }}
{{- if eq .gpu.access "driver-root" }}
- --nvml-library-dir=/host/driver/{{ trimPrefix "/" .gpu.libraryDir }}
{{- end }}
{{- if .web.configSecret }}
- --web-config=/etc/draguard/web/{{ .web.key }}
{{- end }}
- --lease-namespace={{ $.Release.Namespace }}
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

{{- /* true where the sensor can see its GPUs, or the kernel's log, as a privileged container only. */}}
{{- define "draguard.sensorPrivileged" -}}
{{- with .Values.exporter }}
{{- if or (eq .gpu.access "driver-root") (eq .kernelLog "kmsg") }}true{{ end }}
{{- end }}
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
  add:
    - SYSLOG
    {{- range .Values.exporter.extraCapabilities }}
    - {{ . }}
    {{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}
{{- end }}
