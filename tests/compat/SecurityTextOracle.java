import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.TreeMap;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * The small languages of Kafka's security, each by Kafka's or Java's own class, as an oracle.
 *
 * <p>One JSON question a line on standard input, one JSON answer a line on standard output, {"ok": value} or {"error": text}:
 * {"do": "subject", "der": hex} gives the name of an X.500 subject; {"do": "map", "rules", "name"} what `ssl.principal.mapping.rules`
 * make of it; {"do": "jaas", "text"} a list of [module, flag, options]; {"do": "kerberos", "realm", "rules": [text], "name"} a short name;
 * {"do": "address", "bytes": hex} an address as Java prints it. What the class refuses is {"refused": class, "text": message}.
 */
public class SecurityTextOracle {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            ObjectNode answer = JSON.objectNode();
            JsonNode question = mapper.readTree(line);
            try {
                answer.set("ok", answer(question));
            } catch (InvocationTargetException error) {
                answer.set("ok", refused(error.getCause()));
            } catch (Exception error) {
                answer.set("ok", refused(error));
            }
            answers.println(answer);
        }
    }

    private static ObjectNode refused(Throwable error) {
        return JSON.objectNode().put("refused", error.getClass().getSimpleName()).put("text", error.getMessage());
    }

    private static JsonNode answer(JsonNode question) throws Exception {
        return switch (question.get("do").asText()) {
            case "subject" -> JSON.textNode(new X500Principal(bytes(question.get("der"))).getName());
            case "map" -> JSON.textNode(
                SslPrincipalMapper.fromRules(question.get("rules").asText()).getName(question.get("name").asText()));
            case "jaas" -> jaas(question.get("text").asText());
            case "kerberos" -> kerberos(question);
            case "address" -> JSON.textNode(InetAddress.getByAddress(bytes(question.get("bytes"))).getHostAddress());
            default -> throw new IllegalStateException("an unknown question");
        };
    }

    private static byte[] bytes(JsonNode hex) {
        return HexFormat.of().parseHex(hex.asText());
    }

    private static JsonNode jaas(String text) throws Exception {
        Class<?> parser = Class.forName("org.apache.kafka.common.security.JaasConfig");
        Constructor<?> made = parser.getDeclaredConstructor(String.class, String.class);
        made.setAccessible(true);
        ArrayNode entries = JSON.arrayNode();
        for (AppConfigurationEntry entry : ((Configuration) made.newInstance("Context", text)).getAppConfigurationEntry("Context")) {
            ObjectNode options = JSON.objectNode();
            new TreeMap<String, Object>(withoutNull(entry)).forEach((key, value) -> options.put(key, (String) value));
            String flag = entry.getControlFlag().toString();
            entries.addArray().add(entry.getLoginModuleName()).add(flag.substring(flag.indexOf(':') + 2)).add(options);
        }
        return entries;
    }

    /** A key that is no word is null there. */
    private static TreeMap<String, Object> withoutNull(AppConfigurationEntry entry) {
        TreeMap<String, Object> options = new TreeMap<>();
        entry.getOptions().forEach((key, value) -> options.put(key == null ? "<null>" : key, value));
        return options;
    }

    private static JsonNode kerberos(JsonNode question) throws Exception {
        List<String> rules = new ArrayList<>();
        question.get("rules").forEach(rule -> rules.add(rule.asText()));
        return JSON.textNode(KerberosShortNamer
            .fromUnparsedRules(question.get("realm").asText(), rules)
            .shortName(KerberosName.parse(question.get("name").asText())));
    }
}
