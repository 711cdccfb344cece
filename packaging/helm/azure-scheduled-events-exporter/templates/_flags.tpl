{{/* The flags of the exporter, as JSON. Arguments: root, stateDirectory. */}}
{{- define "azse.args" -}}
{{- $values := .root.Values }}
{{- $args := list (printf "--state.directory=%s" .stateDirectory) }}
{{- range default (list (printf ":%d" (int $values.port))) $values.listenAddresses }}
{{- $args = append $args (printf "--web.listen-address=%s" .) }}
{{- end }}
{{- if $values.webConfig.secretName }}
{{- $args = append $args (printf "--web.config.file=%s/web/%s" (include "azse.etc" .) $values.webConfig.key) }}
{{- end }}
{{- $args = append $args (printf "--events.scope=%s" $values.events.scope) }}
{{- if $values.alertmanager.urls }}
{{- $args = concat $args (fromJsonArray (include "azse.alertmanagerArgs" $values.alertmanager)) }}
{{- end }}
{{- $args = concat $args (list (printf "--log.level=%s" $values.log.level) (printf "--log.format=%s" $values.log.format)) }}
{{- toJson (concat $args (default list $values.extraArgs)) }}
{{- end }}

{{- define "azse.alertmanagerArgs" -}}
{{- $args := list }}
{{- range .urls }}{{ $args = append $args (printf "--alertmanager.url=%s" .) }}{{ end }}
{{- range $name, $value := .externalLabels }}
{{- $args = append $args (printf "--alertmanager.external-label=%s=%s" $name $value) }}
{{- end }}
{{- $folder := printf "%s/alertmanager" (include "azse.etc" .) }}
{{- with .secret }}
{{- if and .name .basicAuthKey }}{{ $args = append $args (printf "--alertmanager.basic-auth-file=%s/%s" $folder .basicAuthKey) }}{{ end }}
{{- if and .name .bearerTokenKey }}{{ $args = append $args (printf "--alertmanager.bearer-token-file=%s/%s" $folder .bearerTokenKey) }}{{ end }}
{{- if and .name .caKey }}{{ $args = append $args (printf "--alertmanager.ca-file=%s/%s" $folder .caKey) }}{{ end }}
{{- end }}
{{- toJson $args }}
{{- end }}

{{/*
The environment of the container. A variable of extraEnv replaces that of the chart. It comes before those of the chart, which
can refer to it, and after the name of the node, to which it can refer. Arguments: root.
*/}}
{{- define "azse.env" -}}
{{- $values := .root.Values }}
{{- $extra := default list $values.extraEnv }}
{{- $names := list }}
{{- range $extra }}{{ $names = append $names .name }}{{ end }}
{{- $first := list }}
{{- $rest := list }}
{{- if $values.otlp.endpoint }}
{{- range fromJsonArray (include "azse.otlpEnv" $values.otlp) }}
{{- if has .name $names }}
{{- else if eq .name "K8S_NODE_NAME" }}
{{- $first = append $first . }}
{{- else }}
{{- $rest = append $rest . }}
{{- end }}
{{- end }}
{{- end }}
{{- with concat $first $extra $rest }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{- define "azse.otlpEnv" -}}
{{- $attributes := list "k8s.node.name=$(K8S_NODE_NAME)" }}
{{- range $name, $value := .resourceAttributes }}
{{- $encoded := urlquery $value | replace "+" "%20" }}
{{- /* A reference to another variable stays one. */}}
{{- $encoded = regexReplaceAll "%24%28([A-Za-z_][A-Za-z0-9_.-]*)%29" $encoded "$$(${1})" }}
{{- $attributes = append $attributes (printf "%s=%s" $name $encoded) }}
{{- end }}
{{- $env := list
  (dict "name" "K8S_NODE_NAME" "valueFrom" (dict "fieldRef" (dict "fieldPath" "spec.nodeName")))
  (dict "name" "OTEL_RESOURCE_ATTRIBUTES" "value" (join "," $attributes))
  (dict "name" "OTEL_EXPORTER_OTLP_ENDPOINT" "value" .endpoint)
  (dict "name" "OTEL_EXPORTER_OTLP_COMPRESSION" "value" .compression) }}
{{- $secret := .secret }}
{{- if and $secret.name $secret.headersKey }}
{{- $reference := dict "secretKeyRef" (dict "name" $secret.name "key" $secret.headersKey) }}
{{- $env = append $env (dict "name" "OTEL_EXPORTER_OTLP_HEADERS" "valueFrom" $reference) }}
{{- end }}
{{- if and $secret.name $secret.caKey }}
{{- $file := printf "%s/otlp/%s" (include "azse.etc" .) $secret.caKey }}
{{- $env = append $env (dict "name" "OTEL_EXPORTER_OTLP_CERTIFICATE" "value" $file) }}
{{- end }}
{{- toJson $env }}
{{- end }}
