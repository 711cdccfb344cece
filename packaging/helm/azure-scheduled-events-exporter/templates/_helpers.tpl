{{- define "azse.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Short enough for the suffixes of the resources. */}}
{{- define "azse.fullname" -}}
{{- $name := include "azse.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 45 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 45 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 45 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "azse.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{- define "azse.selectorLabels" -}}
app.kubernetes.io/name: {{ include "azse.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* The labels of a resource, each once. Arguments: root; more, which replace others. */}}
{{- define "azse.labels" -}}
{{- $root := .root }}
{{- $chart := printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- $own := dict
  "app.kubernetes.io/version" $root.Chart.AppVersion
  "app.kubernetes.io/part-of" (include "azse.name" $root)
  "app.kubernetes.io/managed-by" $root.Release.Service
  "helm.sh/chart" $chart }}
{{- $selector := fromYaml (include "azse.selectorLabels" $root) }}
{{- toYaml (merge dict (default dict .more) (default dict $root.Values.commonLabels) $selector $own) }}
{{- end }}

{{- define "azse.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "azse.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* Arguments: root; image, the values of an image; key, their name in the values. */}}
{{- define "azse.image" -}}
{{- $message := printf "%s.repository is required: no image of azure-scheduled-events-exporter is published. Build one and push it to your registry, see README.md" .key }}
{{- $repository := required $message .image.repository }}
{{- with default .image.registry (default dict .root.Values.global).imageRegistry }}{{ trimSuffix "/" . }}/{{ end }}{{ $repository }}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ default .root.Chart.AppVersion .image.tag }}{{ end }}
{{- end }}

{{/*
The paths of the files that match a pattern, as JSON. In a checkout they are links, which other tools may leave out or
replace by their targets' names. Arguments: root; pattern; text, which is in each file.
*/}}
{{- define "azse.files" -}}
{{- $root := .root }}
{{- $text := .text }}
{{- $paths := list }}
{{- $intact := list }}
{{- range $path, $_ := .root.Files.Glob .pattern }}
{{- $paths = append $paths $path }}
{{- if contains $text ($root.Files.Get $path) }}{{ $intact = append $intact $path }}{{ end }}
{{- end }}
{{- if or (empty $intact) (ne (len $intact) (len $paths)) }}
{{- fail (printf "this copy of the chart has no %s: use a package of helm package, or a checkout with symbolic links" .pattern) }}
{{- end }}
{{- toJson $paths }}
{{- end }}

{{- define "azse.scheme" -}}
{{ if and .Values.webConfig.secretName .Values.webConfig.tls }}https{{ else }}http{{ end }}
{{- end }}

{{/* The flags of extraArgs as a JSON list of FLAG=VALUE, also where flag and value are two arguments. */}}
{{- define "azse.extraFlags" -}}
{{- $flags := list }}
{{- range default list .Values.extraArgs }}
{{- if hasPrefix "--" . }}
{{- $flags = append $flags . }}
{{- else if $flags }}
{{- $flags = append (initial $flags) (printf "%s=%s" (last $flags) .) }}
{{- end }}
{{- end }}
{{- toJson $flags }}
{{- end }}

{{- define "azse.telemetryPath" -}}
{{- $path := "/metrics" }}
{{- range fromJsonArray (include "azse.extraFlags" .) }}
{{- if hasPrefix "--web.telemetry-path=" . }}{{ $path = trimPrefix "--web.telemetry-path=" . }}{{ end }}
{{- end }}
{{- $path }}
{{- end }}

{{/* A duration of Prometheus in milliseconds. */}}
{{- define "azse.milliseconds" -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 "d" 86400000 "w" 604800000 "y" 31536000000 }}
{{- $sum := 0 }}
{{- range regexFindAll "[0-9]+[a-z]+" . -1 }}
{{- $sum = add $sum (mul (regexFind "[0-9]+" .) (get $units (regexFind "[a-z]+" .))) }}
{{- end }}
{{- $sum }}
{{- end }}

{{/* What a PodMonitor and a ServiceMonitor have in common. Arguments: root, monitor. */}}
{{- define "azse.endpoint" -}}
port: metrics
path: {{ include "azse.telemetryPath" .root | quote }}
scheme: {{ include "azse.scheme" .root }}
interval: {{ .monitor.interval }}
{{- with .monitor.scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
{{- with .monitor.tlsConfig }}
tlsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .monitor.basicAuth }}
basicAuth:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $job := dict "targetLabel" "job" "replacement" .root.Values.jobName }}
{{- $node := dict "sourceLabels" (list "__meta_kubernetes_pod_node_name") "targetLabel" "node" }}
relabelings:
  {{- include "azse.relabelings" (concat (list $job $node) (default list .monitor.relabelings)) | nindent 2 }}
{{- with .monitor.metricRelabelings }}
metricRelabelings:
  {{- include "azse.relabelings" . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Relabelings with the default that the custom resource writes: otherwise Argo CD sees a difference for ever. */}}
{{- define "azse.relabelings" -}}
{{- $relabelings := list }}
{{- range . }}{{ $relabelings = append $relabelings (set (deepCopy .) "action" (default "replace" .action)) }}{{ end }}
{{- toYaml $relabelings }}
{{- end }}
