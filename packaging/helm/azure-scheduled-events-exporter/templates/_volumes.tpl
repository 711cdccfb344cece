{{/* Secrets are mounted in folders here. */}}
{{- define "azse.etc" -}}/etc/azure-scheduled-events-exporter{{- end }}

{{/* The volumes of the pod, each with the path at which the container has it. Arguments: root, os. */}}
{{- define "azse.volumes" -}}
{{- $values := .root.Values }}
{{- $volumes := list }}
{{- /* The files of a Windows node are visible to a HostProcess container as they are. */}}
{{- if and (eq .os "linux") (eq $values.state.type "emptyDir") }}
{{- $volumes = append $volumes (dict "path" "/state" "volume" (dict "name" "state" "emptyDir" dict)) }}
{{- else if eq .os "linux" }}
{{- $hostPath := dict "path" $values.state.hostPath "type" "DirectoryOrCreate" }}
{{- $volumes = append $volumes (dict "path" "/state" "volume" (dict "name" "state" "hostPath" $hostPath)) }}
{{- end }}
{{- if and (eq .os "linux") $values.physicalHost }}
{{- /* A node without the daemon has no such directory. */}}
{{- $hostPath := dict "path" "/var/lib/hyperv" "type" "DirectoryOrCreate" }}
{{- $volumes = append $volumes (dict "path" "/var/lib/hyperv" "readOnly" true "volume" (dict "name" "hyperv" "hostPath" $hostPath)) }}
{{- end }}
{{- $secrets := dict }}
{{- with $values.webConfig.secretName }}{{ $secrets = set $secrets "web" . }}{{ end }}
{{- $secret := $values.alertmanager.secret }}
{{- if and $values.alertmanager.urls $secret.name (or $secret.basicAuthKey $secret.bearerTokenKey $secret.caKey) }}
{{- $secrets = set $secrets "alertmanager" $secret.name }}
{{- end }}
{{- $secret = $values.otlp.secret }}
{{- if and $values.otlp.endpoint $secret.name $secret.caKey }}
{{- $secrets = set $secrets "otlp" $secret.name }}
{{- end }}
{{- range $folder, $name := $secrets }}
{{- /* 288 is 0440. */}}
{{- $volume := dict "name" $folder "secret" (dict "secretName" $name "defaultMode" 288) }}
{{- $volumes = append $volumes (dict "path" (printf "%s/%s" (include "azse.etc" $) $folder) "readOnly" true "volume" $volume) }}
{{- end }}
{{- toJson $volumes }}
{{- end }}
