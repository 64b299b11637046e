{{- /*
The Deployment of a program of the controller's image, and with several replicas its budget for
disruptions. Takes a dict: root, component, and as YAML, where there is some, its own `args`,
`nodeAffinity`, `mounts` and `volumes`.
*/}}
{{- define "draguard.controller" -}}
{{- $root := .root }}
{{- $component := .component }}
{{- $values := index .root.Values .component }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: draguard-{{ $component }}
  namespace: {{ $root.Release.Namespace | quote }}
  {{- include "draguard.annotations" (list $root) }}
  labels: {{- include "draguard.labels" (list $root (dict "app.kubernetes.io/component" $component)) | nindent 4 }}
spec:
  replicas: {{ $values.replicas }}
  revisionHistoryLimit: {{ int $values.revisionHistoryLimit }}
  selector:
    matchLabels: {{- include "draguard.selector" $component | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "draguard.labels" (list $root) | nindent 8 }}
        app.kubernetes.io/component: {{ $component }}
      {{- with $values.podAnnotations }}
      annotations: {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: draguard-{{ $component }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . | quote }}
      {{- end }}
      {{- include "draguard.pullSecrets" $root | nindent 6 }}
      # On SIGTERM a leader releases its Lease within two seconds.
      terminationGracePeriodSeconds: 10
      affinity:
        {{- with omit $values.affinity "podAntiAffinity" }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        podAntiAffinity:
        {{- with $values.affinity.podAntiAffinity }}
          {{- toYaml . | nindent 10 }}
        {{- else }}
          # Preferred: on a cluster of one node a follower without a place is no help.
          preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 100
              podAffinityTerm:
                topologyKey: kubernetes.io/hostname
                labelSelector:
                  matchLabels: {{- include "draguard.selector" $component | nindent 20 }}
        {{- end }}
        {{- with .nodeAffinity }}
        nodeAffinity: {{- . | nindent 10 }}
        {{- end }}
      {{- with $values.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- range . }}
        - {{- toYaml . | nindent 10 }}
          {{- if not .labelSelector }}
          labelSelector:
            matchLabels: {{- include "draguard.selector" $component | nindent 14 }}
          {{- end }}
        {{- end }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- $security := $values.podSecurityContext }}
      {{- if $values.web.configSecret }}
      {{- /* For the Secret's files. */}}
      {{- $security = merge (dict) $security (dict "fsGroup" 65522) }}
      {{- end }}
      {{- with $security }}
      securityContext: {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ $component }}
          {{- include "draguard.container" (list $root "controller") | nindent 10 }}
          args:
            - {{ $component }}
            - --listen=:{{ include "draguard.port" $component }}
            {{- with $values.web }}
            {{- if .configSecret }}
            - {{ printf "--web-config=/etc/draguard/web/%s" .key | quote }}
            - --health-listen=:9402
            {{- end }}
            {{- end }}
            - {{ printf "--lease-namespace=%s" $root.Release.Namespace | quote }}
            - --leader-elect
            {{- with $root.Values.clusterName }}
            - {{ printf "--cluster-name=%s" . | quote }}
            {{- end }}
            {{- with .args }}
            {{- . | nindent 12 }}
            {{- end }}
            - --log-level={{ $values.logLevel }}
            {{- range $values.extraArgs }}
            - {{ . | quote }}
            {{- end }}
          {{- with $values.extraEnv }}
          env: {{- toYaml . | nindent 12 }}
          {{- end }}
          ports:
            - name: metrics
              containerPort: {{ include "draguard.port" $component }}
            {{- with include "draguard.healthPort" $values.web | trim }}
            {{- . | nindent 12 }}
            {{- end }}
          securityContext: {{- include "draguard.restricted" $root | nindent 12 }}
          resources: {{- toYaml $values.resources | nindent 12 }}
          {{- include "draguard.probes" (list $values.web 5) | nindent 10 }}
          volumeMounts:
            {{- with .mounts }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- include "draguard.tokenMount" $root | nindent 12 }}
            {{- with include "draguard.webMount" $values.web | trim }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- with $values.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        {{- with .volumes }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- include "draguard.tokenVolume" $root | nindent 8 }}
        {{- with include "draguard.webVolume" $values.web | trim }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with $values.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- if gt (int $values.replicas) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: draguard-{{ $component }}
  namespace: {{ $root.Release.Namespace | quote }}
  {{- include "draguard.annotations" (list $root) }}
  labels: {{- include "draguard.labels" (list $root) | nindent 4 }}
spec:
  maxUnavailable: 1
  # A pod that is not ready is no help: it must not keep a node from being drained.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{- include "draguard.selector" $component | nindent 6 }}
{{- end }}
{{- end }}

{{- /*
The account of such a program, and what binds it to the ClusterRole and the Role of its name.
Takes a list of the root and the component.
*/}}
{{- define "draguard.account" -}}
{{- $name := printf "draguard-%s" (last .) }}
{{- $values := index (first .).Values (last .) }}
{{- with first . }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  namespace: {{ .Release.Namespace | quote }}
  {{- include "draguard.annotations" (list . (toYaml $values.serviceAccount.annotations)) }}
  labels: {{- include "draguard.labels" (list .) | nindent 4 }}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
  {{- include "draguard.annotations" (list .) }}
  labels: {{- include "draguard.labels" (list .) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $name }}
    namespace: {{ .Release.Namespace | quote }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ .Release.Namespace | quote }}
  {{- include "draguard.annotations" (list .) }}
  labels: {{- include "draguard.labels" (list .) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $name }}
    namespace: {{ .Release.Namespace | quote }}
{{- end }}
{{- end }}
