// A Linux scale set with the exporter, installed by cloud-init, and with what Azure delivers only if it is switched on
// (docs/azure.md). An example of how to use cloud-init.yaml in a template of your own.

@description('Name of the scale set, and prefix of the names of its VMs')
@maxLength(15)
param name string

@description('Resource ID of the subnet. Prometheus must reach port 10169 of the VMs from where it runs')
param subnetId string

param adminUsername string

param sshPublicKey string

@description('URL of the .deb. It may contain a SAS token. None is published: build it with packaging/release, and upload it to a storage account')
@secure()
param packageUrl string

@description('SHA-256 of the .deb, 64 hexadecimal digits')
@minLength(64)
@maxLength(64)
param packageSha256 string

@description('Flags of the exporter, such as --log.format=json')
param flags string = ''

param location string = resourceGroup().location

param vmSize string = 'Standard_D2s_v5'

param instanceCount int = 2

@description('Debian 12, Ubuntu 22.04 or newer')
param image object = {
  publisher: 'Debian'
  offer: 'debian-12'
  sku: '12-gen2'
  version: 'latest'
}

@description('Terminate events before an instance is deleted')
param terminateNotification bool = true

@description('Time between a Terminate event and the deletion, PT5M to PT15M')
param terminateNotBefore string = 'PT10M'

@description('Events 15 minutes before the operating system image of an instance is upgraded. General purpose sizes only')
param osImageNotification bool = true

@description('Azure approves restarts and redeploys that a user requests: they do not wait for an approval or for NotBefore')
param approveUserRestarts bool = false

@description('Also publish the events to Event Grid and Resource Graph (preview, needs the feature SendScheduledEventsPolicy)')
param publishEvents bool = false

var cloudInitTemplate = loadTextContent('cloud-init.yaml')
var withUrl = replace(cloudInitTemplate, 'PACKAGE_URL', packageUrl)
var withSha256 = replace(withUrl, 'PACKAGE_SHA256', packageSha256)
var cloudInit = replace(withSha256, 'EXPORTER_FLAGS', flags)

resource scaleSet 'Microsoft.Compute/virtualMachineScaleSets@2024-11-01' = {
  name: name
  location: location
  sku: {
    name: vmSize
    capacity: instanceCount
  }
  properties: {
    orchestrationMode: 'Uniform'
    upgradePolicy: {
      mode: 'Manual'
    }
    scheduledEventsPolicy: {
      userInitiatedReboot: {
        automaticallyApprove: approveUserRestarts
      }
      userInitiatedRedeploy: {
        automaticallyApprove: approveUserRestarts
      }
      scheduledEventsAdditionalPublishingTargets: {
        eventGridAndResourceGraph: {
          enable: publishEvents
        }
      }
    }
    virtualMachineProfile: {
      scheduledEventsProfile: {
        terminateNotificationProfile: {
          enable: terminateNotification
          notBeforeTimeout: terminateNotBefore
        }
        osImageNotificationProfile: {
          enable: osImageNotification
          notBeforeTimeout: 'PT15M'
        }
      }
      osProfile: {
        computerNamePrefix: name
        adminUsername: adminUsername
        customData: base64(cloudInit)
        linuxConfiguration: {
          disablePasswordAuthentication: true
          ssh: {
            publicKeys: [
              {
                path: '/home/${adminUsername}/.ssh/authorized_keys'
                keyData: sshPublicKey
              }
            ]
          }
        }
      }
      storageProfile: {
        imageReference: image
        osDisk: {
          createOption: 'FromImage'
          managedDisk: {
            storageAccountType: 'Premium_LRS'
          }
        }
      }
      networkProfile: {
        networkInterfaceConfigurations: [
          {
            name: 'nic'
            properties: {
              primary: true
              ipConfigurations: [
                {
                  name: 'ipconfig'
                  properties: {
                    subnet: {
                      id: subnetId
                    }
                  }
                }
              ]
            }
          }
        ]
      }
    }
  }
}

output scaleSetId string = scaleSet.id
