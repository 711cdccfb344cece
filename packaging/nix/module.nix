# The service on NixOS: imports = [ ./azure-scheduled-events-exporter/packaging/nix/module.nix ];
# It is the unit of the packages, with what keeps it from the rest of the system, and with other flags.
{
  config,
  lib,
  pkgs,
  utils,
  ...
}:

let
  cfg = config.services.azure-scheduled-events-exporter;
  inherit (lib) literalExpression mkOption types;
in
{
  options.services.azure-scheduled-events-exporter = {
    enable = lib.mkEnableOption ''
      the exporter of Azure Scheduled Events. From then on, restarts that you request for this VM wait until they are
      approved, or for up to 15 minutes'';

    package = mkOption {
      type = types.package;
      default = pkgs.callPackage ./package.nix { };
      defaultText = literalExpression "pkgs.callPackage ./package.nix { }";
      description = "The package, with the unit in `lib/systemd/system`.";
    };

    port = mkOption {
      type = types.port;
      default = 10169;
      description = "The TCP port of the metrics, on all addresses.";
    };

    openFirewall = mkOption {
      type = types.bool;
      default = false;
      description = "Whether to open `port` in the firewall. Everybody who reaches it can read the events.";
    };

    extraFlags = mkOption {
      type = types.listOf types.str;
      default = [ ];
      example = [ "--approve.user-events" ];
      description = "Flags of the exporter; `azure-scheduled-events-exporter --help` lists them.";
    };

    environment = mkOption {
      type = types.attrsOf types.str;
      default = { };
      example = {
        OTEL_EXPORTER_OTLP_ENDPOINT = "https://collector.example.com:4318";
      };
      description = "Environment variables, such as those of OTLP.";
    };

    environmentFile = mkOption {
      type = types.nullOr types.path;
      default = null;
      example = "/run/secrets/azure-scheduled-events-exporter";
      description = "A file with lines `NAME=VALUE`, for what may not be in the Nix store, such as `OTEL_EXPORTER_OTLP_HEADERS`.";
    };
  };

  config = lib.mkIf cfg.enable {
    systemd.packages = [ cfg.package ];
    systemd.services.azure-scheduled-events-exporter = {
      wantedBy = [ "multi-user.target" ];
      inherit (cfg) environment;
      serviceConfig = {
        # The first, empty one replaces that of the unit.
        ExecStart = [
          ""
          (utils.escapeSystemdExecArgs (
            [
              (lib.getExe cfg.package)
              "--web.listen-address=:${toString cfg.port}"
            ]
            ++ cfg.extraFlags
          ))
        ];
      }
      // lib.optionalAttrs (cfg.environmentFile != null) { EnvironmentFile = cfg.environmentFile; };
    };
    networking.firewall.allowedTCPPorts = lib.optional cfg.openFirewall cfg.port;
  };
}
