{{- /*
Where remediator and cleanup Job run: remediator.nodeAffinity, or away from the nodes with GPUs that the
exporter knows. Root on a GPU node could take the token there, which may evict every pod. A preference
that cannot be written is left out; a requirement that cannot be written is refused.
*/}}
{{- define "draguard.remediatorNodes" -}}
{{- $away := .Values.remediator.awayFromGpus }}
{{- if .Values.remediator.nodeAffinity }}
{{- toYaml .Values.remediator.nodeAffinity }}
{{- else if ne $away "no" }}
{{- $required := eq $away "required" }}
{{- $selected := list }}
{{- range $pool := (include "draguard.pools" . | fromJson).pools }}
{{- range $term := $pool.exporter.nodeSelectorTerms }}
{{- $selected = append $selected (include "draguard.withGpus" (list $term $pool.exporter) | fromJson).all }}
{{- end }}
{{- end }}
{{- /* Weights of a node add up, so preferences should not overlap. Either form may be the shorter one. */}}
{{- $found := list }}
{{- range $apart := list (not $required) $required }}
{{- if not $found }}
{{- $found = (include "draguard.outside" (list $selected $apart $required) | fromJson).terms }}
{{- end }}
{{- end }}
{{- if and $required (not $found) }}
{{- fail (printf "remediator.awayFromGpus: the nodes that the exporter does not select need more than 32 terms: %s" (include "draguard.nodesInstead" .)) }}
{{- end }}
{{- $terms := list }}
{{- range $found }}
{{- $term := dict }}
{{- range . }}
{{- $kind := ternary "matchFields" "matchExpressions" (hasPrefix "field " .key) }}
{{- $one := set (deepCopy .) "key" (trimPrefix "field " .key) }}
{{- $_ := set $term $kind (append (get $term $kind | default list) $one) }}
{{- end }}
{{- $terms = append $terms $term }}
{{- end }}
{{- if $required -}}
requiredDuringSchedulingIgnoredDuringExecution:
  nodeSelectorTerms: {{- toYaml $terms | nindent 4 }}
{{- else if $terms -}}
preferredDuringSchedulingIgnoredDuringExecution:
  {{- range $terms }}
  - weight: 100
    preference: {{- toYaml . | nindent 6 }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "draguard.nodesInstead" -}}
write the nodes for the remediator into remediator.nodeAffinity and leave awayFromGpus, or set awayFromGpus to "no"
{{- end }}

{{- /*
What one term and the nodeSelector of an exporter require of a node for its GPUs: {"all": [...]}. Not
`pauseLabels`, nor the architecture and system of a nodeSelector: they tell which GPU nodes the exporter
takes and when, and the others have GPUs all the same. Where nothing else says which nodes these are,
all of it, and a node whose driver is being changed is still one of them.
*/}}
{{- define "draguard.withGpus" -}}
{{- $exporter := index . 1 }}
{{- $ofTerm := (include "draguard.requirements" (list (index . 0) dict) | fromJson).all }}
{{- $ofNodes := omit $exporter.nodeSelector "kubernetes.io/arch" "kubernetes.io/os" }}
{{- $all := list }}
{{- $named := false }}
{{- range concat (include "draguard.requirements" (list dict $ofNodes) | fromJson).all $ofTerm }}
{{- if not (has .key $exporter.pauseLabels) }}
{{- $all = append $all . }}
{{- $named = or $named (has .operator (list "In" "Exists" "Gt" "Lt")) }}
{{- end }}
{{- end }}
{{- if not $named }}
{{- $all = list }}
{{- range concat (include "draguard.requirements" (list dict $exporter.nodeSelector) | fromJson).all $ofTerm }}
{{- if and (has .key $exporter.pauseLabels) (eq .operator "In") }}
{{- $_ := set . "values" (concat (.values | default list) (include "draguard.paused" "" | splitList " ") | uniq) }}
{{- end }}
{{- $all = append $all . }}
{{- end }}
{{- end }}
{{- dict "all" $all | toJson }}
{{- end }}

{{- /*
The nodes that none of some terms selects: {"terms": [[expression, ...], ...]}, of which one list must hold
as a whole; none where that takes more than 32. The exporter selects by an OR of ANDs, so its opposite is
an AND of ORs, multiplied out. Takes the terms, whether no node may match two lists of the result, and
whether an expression without opposite is refused; if not, the result lacks the nodes that it excludes.
*/}}
{{- define "draguard.outside" -}}
{{- $apart := index . 1 }}
{{- $required := index . 2 }}
{{- $terms := list list }}
{{- range index . 0 }}
{{- $any := list }}
{{- $before := list }}
{{- range $one := . }}
{{- $opposite := (include "draguard.opposite" $one | fromJson).any }}
{{- if and $required (not $opposite) }}
{{- fail (printf "remediator.awayFromGpus: %s of exporter.nodeSelectorTerms has no opposite: %s" (toJson $one) (include "draguard.nodesInstead" "")) }}
{{- end }}
{{- range $opposite }}
{{- $any = append $any (append $before .) }}
{{- end }}
{{- if $apart }}{{ $before = append $before $one }}{{ end }}
{{- end }}
{{- $terms = (include "draguard.both" (list $terms $any $apart) | fromJson).terms }}
{{- end }}
{{- dict "terms" $terms | toJson }}
{{- end }}

{{- /*
What holds where both of two such lists of lists hold, without terms that another one covers, and if the
third value is true, without terms that no node can meet. None where there are too many: 256 before
they are compared with each other, or 32 afterwards.
*/}}
{{- define "draguard.both" -}}
{{- $found := list }}
{{- if le (mul (index . 0 | len) (index . 1 | len)) 256 }}
{{- range $one := index . 0 }}
{{- range $other := index $ 1 }}
{{- if not (and (index $ 2) (include "draguard.apart" (list $one $other))) }}
{{- $found = append $found (concat $one $other | uniq) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- $terms := list }}
{{- range $i, $term := $found }}
{{- $covered := false }}
{{- range $j, $other := $found }}
{{- if or (lt (len $other) (len $term)) (and (eq (len $other) (len $term)) (lt $j $i)) }}
{{- $within := true }}
{{- range $other }}
{{- if not (has . $term) }}{{ $within = false }}{{ break }}{{ end }}
{{- end }}
{{- if $within }}{{ $covered = true }}{{ break }}{{ end }}
{{- end }}
{{- end }}
{{- if not $covered }}{{ $terms = append $terms $term }}{{ end }}
{{- end }}
{{- dict "terms" (gt (len $terms) 32 | ternary list $terms) | toJson }}
{{- end }}

{{- /*
The opposite of one expression, as expressions of which one must hold; none where there is none. A label
that is no integer counts as excluded: neither Gt nor Lt matches it, and nothing else describes it.
*/}}
{{- define "draguard.opposite" -}}
{{- $any := list }}
{{- $plain := get (dict "In" "NotIn" "NotIn" "In" "Exists" "DoesNotExist" "DoesNotExist" "Exists") .operator }}
{{- if $plain }}
{{- $any = list (set (deepCopy .) "operator" $plain) }}
{{- else if regexMatch "^(0|-?[1-9][0-9]{0,17})$" (.values | default (list "") | first) }}
{{- $number := first .values | int64 }}
{{- $limit := eq .operator "Gt" | ternary (add $number 1) (sub $number 1) | toString }}
{{- $other := dict "key" .key "operator" (eq .operator "Gt" | ternary "Lt" "Gt") "values" (list $limit) }}
{{- $any = list $other (dict "key" .key "operator" "DoesNotExist") }}
{{- end }}
{{- dict "any" $any | toJson }}
{{- end }}
