// Installs the exporter on existing VMs and scale sets with the custom script extension. README.md shows its use.
//
// A VM has at most one custom script extension. If yours is taken, call install.sh from your own script.

@description('URL of a .deb or .rpm for Linux, of the .msi for Windows. It may contain a SAS token. None is published: build them with packaging/release, and upload them to a storage account')
@secure()
param packageUrl string

@description('SHA-256 of that file, 64 hexadecimal digits')
@minLength(64)
@maxLength(64)
param packageSha256 string

@description('Operating system of all these VMs and scale sets')
@allowed([
  'Linux'
  'Windows'
])
param osType string = 'Linux'

@description('Names of VMs in this resource group')
param vmNames array = []

@description('Names of scale sets in this resource group. With the upgrade policy Manual, update their instances afterwards')
param scaleSetNames array = []

@description('Flags of the exporter, such as --log.format=json. Empty: those of an earlier installation stay')
param flags string = ''

@description('The first installation adds a rule for the program to the firewall of Windows; a later one leaves the rule as it is. false: no rule, and an existing one is removed. Network security groups are not changed')
param openFirewall bool = true

@description('Download with the system-assigned identity of the VM, which needs the role Storage Blob Data Reader')
param useManagedIdentity bool = false

@description('Location of the VMs')
param location string = resourceGroup().location

var isLinux = osType == 'Linux'
var file = last(split(first(split(packageUrl, '?')), '/'))
// In single quotes for sh
var quotedFlags = replace(flags, '\'', '\'\\\'\'')
var linuxScript = base64(loadTextContent('install.sh'))
var linuxCommand = 'echo ${linuxScript} | base64 -d >install.sh && sh install.sh \'${file}\' ${packageSha256} \'${quotedFlags}\''
// certutil prints the digest on a line of its own (Windows Server 2016 or newer).
var windowsCommand = 'cmd /d /c "certutil -hashfile "${file}" SHA256 | findstr /i /x ${packageSha256} && start /wait "" msiexec /i "${file}" /qn /norestart ${openFirewall ? '' : 'FIREWALL=0 '}ARGS="${flags}""'
var identity = useManagedIdentity ? { managedIdentity: {} } : {}

var handler = {
  publisher: isLinux ? 'Microsoft.Azure.Extensions' : 'Microsoft.Compute'
  type: isLinux ? 'CustomScript' : 'CustomScriptExtension'
  version: isLinux ? '2.1' : '1.10'
}
// Encrypted for the VM. A change of them runs the command again.
var protectedSettings = union(identity, {
  fileUris: [
    packageUrl
  ]
  commandToExecute: isLinux ? linuxCommand : windowsCommand
})

resource vms 'Microsoft.Compute/virtualMachines@2024-11-01' existing = [for name in vmNames: {
  name: name
}]

resource scaleSets 'Microsoft.Compute/virtualMachineScaleSets@2024-11-01' existing = [for name in scaleSetNames: {
  name: name
}]

resource onVms 'Microsoft.Compute/virtualMachines/extensions@2024-11-01' = [for (name, index) in vmNames: {
  parent: vms[index]
  name: 'azure-scheduled-events-exporter'
  location: location
  properties: {
    publisher: handler.publisher
    type: handler.type
    typeHandlerVersion: handler.version
    autoUpgradeMinorVersion: true
    protectedSettings: protectedSettings
  }
}]

resource onScaleSets 'Microsoft.Compute/virtualMachineScaleSets/extensions@2024-11-01' = [for (name, index) in scaleSetNames: {
  parent: scaleSets[index]
  name: 'azure-scheduled-events-exporter'
  properties: {
    publisher: handler.publisher
    type: handler.type
    typeHandlerVersion: handler.version
    autoUpgradeMinorVersion: true
    protectedSettings: protectedSettings
  }
}]
