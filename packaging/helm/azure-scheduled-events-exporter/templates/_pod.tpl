{{/* A probe. Arguments: root, path, timing. */}}
{{- define "azse.probe" -}}
{{- if and .root.Values.webConfig.secretName .root.Values.webConfig.clientCertificates }}
tcpSocket:
  port: metrics
{{- else }}
httpGet:
  path: {{ .path }}
  port: metrics
  scheme: {{ include "azse.scheme" .root | upper }}
{{- end }}
{{- with .timing }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/*
An affinity that also avoids virtual nodes, which run no DaemonSet: Azure Container Instances refuses the pod, and a pod that
is never ready stops the replacement of the others. The argument is the affinity of the values.
*/}}
{{- define "azse.affinity" -}}
{{- $kind := "requiredDuringSchedulingIgnoredDuringExecution" }}
{{- $node := default dict .nodeAffinity }}
{{- $noVirtualNode := dict "key" "type" "operator" "NotIn" "values" (list "virtual-kubelet") }}
{{- $terms := list }}
{{- /* A node must match one of the terms. */}}
{{- range default (list dict) (get (default dict (get $node $kind)) "nodeSelectorTerms") }}
{{- $expressions := append (default list .matchExpressions) $noVirtualNode }}
{{- $terms = append $terms (merge (dict "matchExpressions" $expressions) .) }}
{{- end }}
{{- toYaml (merge (dict "nodeAffinity" (merge (dict $kind (dict "nodeSelectorTerms" $terms)) $node)) .) }}
{{- end }}

{{/* The security context of the pod. */}}
{{- define "azse.podSecurityContext" -}}
{{- $values := .root.Values }}
{{- if eq .os "windows" }}
windowsOptions:
  hostProcess: true
  runAsUserName: {{ $values.windows.runAsUserName | quote }}
{{- else if eq $values.state.type "hostPath" }}
{{- $user := int $values.state.hostPathUser }}
{{- $context := set (deepCopy (default dict $values.podSecurityContext)) "runAsUser" $user }}
{{- toYaml (set (set $context "runAsGroup" $user) "runAsNonRoot" (ne $user 0)) }}
{{- else }}
{{- toYaml (default dict $values.podSecurityContext) }}
{{- end }}
{{- end }}

{{/*
A DaemonSet. Arguments: root; os, linux or windows; name; settings, the values of the operating system (image, resources,
nodeSelector, tolerations, affinity); imageKey, the name of the image in the values; stateDirectory.
*/}}
{{- define "azse.daemonSet" -}}
{{- $values := .root.Values }}
{{- $volumes := fromJsonArray (include "azse.volumes" .) }}
{{- $component := dict "app.kubernetes.io/component" .os }}
{{- $selector := merge (fromYaml (include "azse.selectorLabels" .root)) $component }}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ .name | quote }}
  namespace: {{ include "azse.namespace" .root | quote }}
  labels:
    {{- include "azse.labels" (dict "root" .root "more" $component) | nindent 4 }}
  {{- with $values.daemonSetAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  selector:
    matchLabels:
      {{- toYaml $selector | nindent 6 }}
  {{- with $values.updateStrategy }}
  updateStrategy:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  template:
    metadata:
      {{- /* Without the version of the chart, so that an upgrade restarts only pods that change. */}}
      labels:
        {{- toYaml (merge dict (default dict $values.podLabels) (default dict $values.commonLabels) $selector) | nindent 8 }}
      {{- with $values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      {{- /* A HostProcess container is always in the network of the host. */}}
      {{- $hostNetwork := or $values.hostNetwork (eq .os "windows") }}
      hostNetwork: {{ $hostNetwork }}
      {{- with default (ternary "ClusterFirstWithHostNet" "" $hostNetwork) $values.dnsPolicy }}
      dnsPolicy: {{ . }}
      {{- end }}
      serviceAccountName: {{ include "azse.serviceAccountName" .root | quote }}
      automountServiceAccountToken: false
      {{- with $values.dnsConfig }}
      dnsConfig:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with concat (default list (default dict $values.global).imagePullSecrets) (default list $values.imagePullSecrets) }}
      imagePullSecrets:
        {{- toYaml (uniq .) | nindent 8 }}
      {{- end }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . | quote }}
      {{- end }}
      terminationGracePeriodSeconds: {{ int $values.terminationGracePeriodSeconds }}
      securityContext:
        {{- include "azse.podSecurityContext" . | trim | nindent 8 }}
      containers:
        - name: exporter
          image: {{ include "azse.image" (dict "root" .root "image" .settings.image "key" .imageKey) | quote }}
          imagePullPolicy: {{ .settings.image.pullPolicy }}
          args:
            {{- fromJsonArray (include "azse.args" .) | toYaml | nindent 12 }}
          {{- with include "azse.env" . }}
          env:
            {{- . | nindent 12 }}
          {{- end }}
          ports:
            - name: metrics
              containerPort: {{ int $values.port }}
              protocol: TCP
          livenessProbe:
            {{- include "azse.probe" (dict "root" .root "path" "/-/healthy" "timing" $values.livenessProbe) | trim | nindent 12 }}
          readinessProbe:
            {{- include "azse.probe" (dict "root" .root "path" "/-/ready" "timing" $values.readinessProbe) | trim | nindent 12 }}
          {{- with .settings.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- if eq .os "linux" }}
          securityContext:
            {{- toYaml (default dict $values.securityContext) | nindent 12 }}
          {{- end }}
          {{- if or $volumes $values.extraVolumeMounts }}
          volumeMounts:
            {{- range $volumes }}
            - name: {{ .volume.name }}
              mountPath: {{ .path }}
              {{- if .readOnly }}
              readOnly: true
              {{- end }}
            {{- end }}
            {{- with $values.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- end }}
        {{- with $values.extraContainers }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- if or $volumes $values.extraVolumes }}
      volumes:
        {{- range $volumes }}
        {{- toYaml (list .volume) | nindent 8 }}
        {{- end }}
        {{- with $values.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      {{- with .settings.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .settings.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      affinity:
        {{- include "azse.affinity" .settings.affinity | nindent 8 }}
{{- end }}
