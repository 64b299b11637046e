{{- /*
The exporters of this release as JSON, {"pools": [{name, fullName, exporter}]}: one for each of
exporter.pools, or the one that exporter.* describes. `exporter` has the values of that DaemonSet:
exporter.*, by the preset of its stack where they are the defaults, overridden by the pool. Not mergeOverwrite: an empty value of a pool counts as well.
*/}}
{{- define "draguard.pools" -}}
{{- $found := list }}
{{- range $pool := .Values.exporter.pools | default (list dict) }}
{{- $exporter := omit (deepCopy $.Values.exporter) "pools" }}
{{- $stack := $pool.stack | default $.Values.stack }}
{{- if $stack }}
{{- $presets := $.Files.Get "stacks.yaml" | fromYaml }}
{{- /* SELinux is of the cluster, whatever stack the nodes of a pool have. */}}
{{- $ofCluster := pick (dig "stacks" $.Values.stack dict $presets) "seLinuxOptions" }}
{{- range $key, $value := merge (dict) $ofCluster (index $presets.stacks $stack) }}
{{- $default := index $presets.defaults $key }}
{{- if and (kindIs "map" $value) $default }}
{{- range $below, $given := $value }}
{{- if eq (index $exporter $key $below | toJson) (index $default $below | toJson) }}
{{- $_ := set (index $exporter $key) $below $given }}
{{- end }}
{{- end }}
{{- else if eq (index $exporter $key | toJson) ($default | toJson) }}
{{- $_ := set $exporter $key $value }}
{{- end }}
{{- end }}
{{- end }}
{{- range $key, $value := omit $pool "name" "resources" "stack" }}
{{- if kindIs "map" $value }}
{{- range $below, $given := $value }}
{{- $_ := set (index $exporter $key) $below $given }}
{{- end }}
{{- else }}
{{- $_ := set $exporter $key $value }}
{{- end }}
{{- end }}
{{- range $container, $resources := $pool.resources }}
{{- $_ := set (index $exporter $container) "resources" $resources }}
{{- end }}
{{- $name := $pool.name | default "" }}
{{- $found = append $found (dict "name" $name "stack" $stack "fullName" (printf "draguard-exporter-%s" $name | trimSuffix "-") "exporter" $exporter) }}
{{- end }}
{{- dict "pools" $found | toJson }}
{{- end }}

{{- /* What one term and the nodeSelector of a pool require of a node: a JSON list. */}}
{{- define "draguard.requirements" -}}
{{- $all := index . 1 }}
{{- $found := (index . 0).matchExpressions | default list }}
{{- range (index . 0).matchFields }}
{{- $found = append $found (set (deepCopy .) "key" (printf "field %s" .key)) }}
{{- end }}
{{- range $key, $value := $all }}
{{- $found = append $found (dict "key" $key "operator" "In" "values" (list $value)) }}
{{- end }}
{{- dict "all" $found | toJson }}
{{- end }}

{{- /* true where no node can meet both lists of requirements, as far as their text shows. */}}
{{- define "draguard.apart" -}}
{{- $apart := "" }}
{{- range $pair := list (list (index . 0) (index . 1)) (list (index . 1) (index . 0)) }}
{{- range $one := index $pair 0 }}
{{- range $other := index $pair 1 }}
{{- if eq $one.key $other.key }}
{{- if and (eq $other.operator "DoesNotExist") (has $one.operator (list "In" "Exists" "Gt" "Lt")) }}
{{- $apart = "true" }}
{{- else if and (eq $one.operator "In") (has $other.operator (list "In" "NotIn")) }}
{{- $common := list }}
{{- range $one.values }}
{{- if eq (has . $other.values) (eq $other.operator "In") }}
{{- $common = append $common . }}
{{- end }}
{{- end }}
{{- if not $common }}
{{- $apart = "true" }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- $apart }}
{{- end }}

{{- /*
The values of `pauseLabels` by which NVIDIA's operators empty a node. The third is that of an upgrade
during a change of the MIG layout.
*/}}
{{- define "draguard.paused" -}}
paused-for-driver-upgrade paused-for-mig-change paused-for-mig-change_paused-for-driver-upgrade
{{- end }}

{{- /*
The terms of a pool, each without nodes whose driver or MIG layout is being changed: a sensor that stays
there holds the driver. Takes the values of one exporter.
*/}}
{{- define "draguard.nodeSelectorTerms" -}}
{{- $pauses := list }}
{{- $paused := include "draguard.paused" "" | splitList " " }}
{{- range .pauseLabels }}
{{- $pauses = append $pauses (dict "key" . "operator" "NotIn" "values" $paused) }}
{{- end }}
{{- $terms := list }}
{{- range .nodeSelectorTerms }}
{{- $term := deepCopy . }}
{{- with concat (.matchExpressions | default list) $pauses }}
{{- $_ := set $term "matchExpressions" . }}
{{- end }}
{{- $terms = append $terms $term }}
{{- end }}
{{- toYaml $terms }}
{{- end }}
