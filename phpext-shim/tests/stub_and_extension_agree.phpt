--TEST--
coatcheck.stub.php says the same as the extension's own arginfo
--FILE--
<?php
$stub = file_get_contents(getenv('COATCHECK_SOURCE') . '/phpext-shim/coatcheck.stub.php');
eval('?>' . preg_replace(['/function (\w+_)/', '/namespace Coatcheck/'], ['function stub_$1', 'namespace StubOfCoatcheck'], $stub));

function signature(ReflectionFunction $function): string
{
    $text = strstr((string) $function, '- Parameters') ?: strstr((string) $function, '- Return');
    return strtr(preg_replace(['/\s+/', '/ <(optional|required)>/'], [' ', ''], $text), ['NULL' => 'null', "''" => '""']);
}
$declared = array_filter(get_defined_functions()['user'], fn ($name) => str_starts_with($name, 'stub_'));
foreach ($declared as $name) {
    $ours = signature(new ReflectionFunction(substr($name, 5)));
    $stubs = signature(new ReflectionFunction($name));
    if ($ours !== $stubs) {
        echo "$name\n  extension $ours\n  stub      $stubs\n";
    }
}
$exported = array_keys((new ReflectionExtension('coatcheck'))->getFunctions());
echo implode(' ', array_diff($exported, array_map(fn ($name) => substr($name, 5), $declared))), "\n";

foreach ((new ReflectionExtension('coatcheck'))->getClasses() as $class) {
    $stub = new ReflectionClass(str_replace('Coatcheck\\', 'StubOfCoatcheck\\', $class->getName()));
    $describe = fn (ReflectionProperty $p) => "{$p->getType()} {$p->getName()} = " . json_encode($p->getDefaultValue());
    $properties = fn (ReflectionClass $c) => array_map($describe, $c->getProperties(ReflectionProperty::IS_PUBLIC));
    echo $properties($class) === $properties($stub) ? '' : "{$class->getName()} has other properties\n";
    echo $class->getParentClass()->getShortName() === $stub->getParentClass()->getShortName() ? '' : "{$class->getName()} has another parent\n";
}
echo count($declared), ' functions, ', count((new ReflectionExtension('coatcheck'))->getClasses()), " classes\n";
?>
--EXPECT--

35 functions, 9 classes
